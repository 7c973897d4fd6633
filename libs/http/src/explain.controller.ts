import { Operators, RunOpener } from '@toolloop/core/internal';
import { CallerController, CurrentCaller } from './caller.js';
import { findPerson } from './found-person.js';
import type { Caller } from './http-options.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** Tells operators why a tool is offered, and what became of a call. */
@CallerController()
export class ExplainController {
  constructor(
    private readonly served: ServedLoop,
    readonly operators: Operators,
    readonly opener: RunOpener,
  ) {}

  @Route('GET /explain/:tool')
  async explain(
    { tool, runId, toolCallId, actorId }: Asks<'GET /explain/:tool'>,
    @CurrentCaller() operator: Caller,
  ) {
    const { loop } = this.served;
    if (runId !== undefined && toolCallId !== undefined)
      return loop.explainCall({ runId, toolCallId, operator });
    const subject =
      actorId === undefined
        ? operator
        : await findPerson(actorId, { operator, action: 'explain' }, this);
    return loop.explain(tool, { ...(await this.served.termsOf(subject)), operator });
  }
}
