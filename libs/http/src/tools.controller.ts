import { HttpStatus, Res } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ToolCatalog } from '@toolloop/core';
import type { CallRequest } from '@toolloop/core/contracts';
import {
  CallerAtDoor,
  CallerController,
  CurrentCaller,
  type FoundCaller,
  IdempotencyKey,
} from './caller.js';
import type { Caller, ToolLoopHttpOptions } from './http-options.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/**
 * The tools that the caller's model may call from the first step. Those of entities appear with
 * them.
 */
@CallerController()
export class ToolsController {
  constructor(
    private readonly served: ServedLoop,
    private readonly catalog: ToolCatalog,
    private readonly adapters: HttpAdapterHost,
  ) {}

  @Route('GET /tools')
  async list(@CurrentCaller() caller: Caller) {
    const tools = await this.served.loop.list(await this.served.termsOf(caller));
    return tools.map(({ id, description, effect, inputSchema, declaredId }) => {
      const { presentation } = this.catalog.describe(declaredId);
      return { id, description, effect, inputSchema, presentation };
    });
  }

  /**
   * Calls a tool by hand: 202 for a call that waits for a person, at which its run is resumed. What
   * is wrong with the call is in its record.
   */
  @Route('POST /tools/:tool')
  async call(
    { tool, args = {} }: Asks<'POST /tools/:tool'>,
    @CallerAtDoor() { caller, isPerson }: FoundCaller,
    @Res({ passthrough: true }) response: unknown,
    @IdempotencyKey() requestId?: string,
  ) {
    const { loop, options } = this.served;
    const terms = await this.served.termsOf(caller);
    const made = await loop.call({
      ...terms,
      tool,
      args,
      ...(isPerson ? { argsOrigin: 'actor' as const } : originFor(caller, options)),
      ...(requestId !== undefined && { requestId }),
    });
    if (made.waiting) this.accept(made.runId, response);
    return made;
  }

  private accept(runId: string, response: unknown): void {
    const { httpAdapter } = this.adapters;
    httpAdapter.status(response, HttpStatus.ACCEPTED);
    httpAdapter.setHeader(response, 'location', `../runs/${runId}`);
  }
}

/**
 * Returns who wrote the arguments of a caller: a program, of which nothing is known, unless the
 * application says otherwise.
 */
function originFor(
  caller: Caller,
  options: ToolLoopHttpOptions,
): Pick<CallRequest, 'argsOrigin' | 'vouchedFor'> {
  const { argsOrigin } = options;
  const reason: unknown = options.vouchFor?.(caller);
  if (typeof reason === 'string' && reason.trim() !== '')
    return { argsOrigin: 'actor', vouchedFor: reason };
  return argsOrigin ? { argsOrigin } : {};
}
