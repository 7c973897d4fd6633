import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type LoopRequest, ToolLoopService } from '@toolloop/core';
import type { Ask } from '@toolloop/protocol';
import {
  type Caller,
  type CallerTerms,
  HTTP,
  HTTP_OPTIONS,
  loopTokenOf,
  type ToolLoopHttpOptions,
} from './http-options.js';

/** The loop that the routes are for, and the terms on which callers use it. */
@Injectable()
export class ServedLoop implements OnModuleInit {
  constructor(
    @Inject(HTTP_OPTIONS) readonly options: ToolLoopHttpOptions,
    private readonly modules: ModuleRef,
  ) {
    HTTP.assert(options, 'ToolLoopHttpModule');
  }

  /** Fails where the loop that is to be served does not exist. */
  onModuleInit(): void {
    void this.loop;
  }

  get loop(): ToolLoopService {
    return this.modules.get(loopTokenOf(this.options) ?? ToolLoopService, { strict: false });
  }

  async termsOf(caller: Caller): Promise<CallerRequest> {
    return { ...(await this.options.terms?.(caller)), ...caller };
  }

  /**
   * The run of a question: actor and tenant come from the application, never from the body.
   * `requestId` is the client's name for it.
   */
  async requestOf(
    { message, conversationId, rehearse, whenBusy, messageId, cut }: Ask,
    caller: Caller,
    requestId?: string,
  ): Promise<LoopRequest> {
    return {
      ...(await this.termsOf(caller)),
      prompt: message,
      ...(rehearse && { rehearse }),
      ...(whenBusy && { whenBusy }),
      ...(conversationId && { conversationId }),
      ...(messageId !== undefined && { messageId }),
      ...(cut && { cut: { at: cut.at, ...(cut.after && { after: cut.after }) } }),
      ...(requestId !== undefined && { requestId }),
    };
  }
}

/** A caller with the terms of the application, as every request to the loop begins. */
export type CallerRequest = Caller & CallerTerms;
