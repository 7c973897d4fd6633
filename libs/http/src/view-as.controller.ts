import { PendingService, ToolCatalog } from '@toolloop/core';
import { ActorIdentity, Operators, RunOpener } from '@toolloop/core/internal';
import type { ToolExplanation } from '@toolloop/core/loop';
import { type Asks, isRecord, type ViewedTool } from '@toolloop/protocol';
import { CallerController, CurrentCaller } from './caller.js';
import { findPerson } from './found-person.js';
import type { Caller } from './http-options.js';
import { ROUTED_ACTIONS } from './routed-actions.js';
import { RunStreams } from './run-streams.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';

/**
 * The application as another person of the tenant sees it, for operators: lists and reasons, and
 * nothing to act on.
 */
@CallerController()
export class ViewAsController {
  constructor(
    private readonly served: ServedLoop,
    private readonly catalog: ToolCatalog,
    private readonly streams: RunStreams,
    private readonly pending: PendingService,
    readonly operators: Operators,
    private readonly identity: ActorIdentity,
    readonly opener: RunOpener,
  ) {}

  /** One entry of the audit names the operator and the person. */
  @Route('GET /view-as/:actorId')
  async view({ actorId }: Asks<'GET /view-as/:actorId'>, @CurrentCaller() operator: Caller) {
    const person = await findPerson(actorId, { operator, action: 'viewAs' }, this);
    const tools = await this.served.loop.viewAs({
      ...(await this.served.termsOf(person)),
      operator,
    });
    const { actor } = person;
    const name: unknown = isRecord(actor) ? actor['name'] : undefined;
    return {
      actor: {
        id: actorId,
        ...(typeof name === 'string' && { name }),
        roles: this.identity.rolesOf(actor),
      },
      may: ROUTED_ACTIONS.filter((action) => this.operators.may(person, action)),
      tools: tools.map((tool) => this.described(tool)),
      runs: await this.streams.list(person, { limit: MOST_VIEWED }),
      waiting: await this.pending.inbox(person, { limit: MOST_VIEWED }),
    };
  }

  private described(tool: ToolExplanation): ViewedTool {
    const { description, effect, source, presentation } = this.catalog.describe(tool.declaredId);
    return { ...tool, description, effect, source, ...(presentation && { presentation }) };
  }
}

/** The most runs and requests of a person that are shown to an operator who looks as them. */
const MOST_VIEWED = 50;
