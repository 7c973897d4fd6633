import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import type { ToolCallContext } from '../contracts/tool-call.js';

/** The tool call that the current code runs in, for code too deep to be handed the context. */
@Injectable()
export class ToolCallStorage {
  private readonly storage = new AsyncLocalStorage<ToolCallContext>();

  /** Undefined outside a tool call. */
  current(): ToolCallContext | undefined {
    return this.storage.getStore();
  }

  run<Result>(context: ToolCallContext, callback: () => Result): Result {
    return this.storage.run(context, callback);
  }
}
