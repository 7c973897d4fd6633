import { Get, Param, Query } from '@nestjs/common';
import type { CallExplanation } from '@toolloop/core';
import { Operators, RunOpener } from '@toolloop/core/internal';
import type { ToolExplanation } from '@toolloop/core/loop';
import { CallerController, CurrentCaller, STRICT } from './caller.js';
import { findPerson } from './found-person.js';
import type { Caller } from './http-options.js';
import { Explained } from './requests.dto.js';
import { ServedLoop } from './served-loop.js';

/** Tells operators why a tool is offered, and what became of a call. */
@CallerController('explain')
export class ExplainController {
  constructor(
    private readonly served: ServedLoop,
    readonly operators: Operators,
    readonly opener: RunOpener,
  ) {}

  @Get(':tool')
  async explain(
    @Param('tool') tool: string,
    @CurrentCaller() operator: Caller,
    @Query(STRICT) { runId, toolCallId, actorId }: Explained,
  ): Promise<ToolExplanation | CallExplanation> {
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
