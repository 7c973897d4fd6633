import { Injectable, Optional } from '@nestjs/common';
import { type Decision, InvalidRequestError } from '@toolloop/protocol';
import { AuditTrail } from '../audit/audit-trail.js';
import { Operators } from './operators.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { AuditEntry } from '../../contracts/audit.js';
import type { LoopProfile } from '../../contracts/loop-request.js';
import type { Operator } from '../../contracts/operator.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import {
  type ListingRequest,
  RunPreparation,
  type ToolExplanation,
} from '../../run/run-preparation.js';
import { ActorIdentity } from '../../policy/actor-identity.js';

/**
 * Tells operators why a tool is offered, called, asked about or denied. Each use is in the audit.
 */
@Injectable()
export class Explanations {
  constructor(
    private readonly catalog: ToolCatalog,
    private readonly preparation: RunPreparation,
    private readonly operators: Operators,
    private readonly identity: ActorIdentity,
    @Optional() private readonly trail?: AuditTrail,
  ) {}

  /** Explains a tool; see `ToolLoopService.explain`. */
  async explain<Actor>(
    tool: string,
    { operator, ...request }: ExplainRequest<Actor>,
    profile: LoopProfile,
  ): Promise<ToolExplanation> {
    const { actor, tenant } = request;
    await this.operators.use(operator ?? { actor, tenant }, 'explain', {
      tenant,
      details: { tool: tool.slice(0, 128) },
    });
    const explained = this.catalog.entityTool(tool) ?? this.catalog.resolve(tool);
    return (await this.preparation.explainer(request, profile))(explained);
  }

  /** Explains every tool; see `ToolLoopService.viewAs`. */
  async viewAs<Actor>(
    { operator, ...request }: ExplainRequest<Actor>,
    profile: LoopProfile,
  ): Promise<readonly ToolExplanation[]> {
    const { actor, tenant } = request;
    const actorId = this.identity.idOf(actor);
    await this.operators.use(operator ?? { actor, tenant }, 'viewAs', {
      tenant,
      details: { ...(actorId !== undefined && { actorId }) },
    });
    const ids = this.catalog.subjects().map(({ declaredId }) => declaredId);
    const tools = ids.flatMap((id) => this.catalog.entityTool(id) ?? this.catalog.find(id) ?? []);
    return Promise.all(tools.map(await this.preparation.explainer(request, profile)));
  }

  /** Explains a call; see `ToolLoopService.explainCall`. */
  async explainCall<Actor>({
    runId,
    toolCallId,
    operator,
    tenant = operator.tenant,
  }: ExplainedCallRequest<Actor>): Promise<CallExplanation> {
    await this.operators.use(operator, 'explain', { tenant, details: { runId, toolCallId } });
    if (!this.trail)
      throw new InvalidRequestError(
        'invalid_request',
        'There is no audit to explain calls by. Keep one: ToolLoopModule.forRoot({ audit }).',
      );
    const entries: AuditEntry[] = [];
    for await (const entry of this.trail.entries(tenant))
      if (entry.runId === runId && entry.toolCallId === toolCallId) entries.push(entry);
    if (entries.length === 0)
      throw new InvalidRequestError('unknown_run', 'The audit of this tenant has no such call.');
    const declaredId = entries.find((entry) => entry.declaredId !== undefined)?.declaredId;
    return {
      runId,
      toolCallId,
      ...(declaredId !== undefined && { declaredId }),
      events: entries.map(toEvent),
    };
  }
}

/** The run for which a tool is explained, and the operator who asks. */
export type ExplainRequest<Actor = RegisteredActor> = ListingRequest<Actor> & {
  /**
   * The person who asks, whom `forRoot({ operators })` must permit `explain`. @default the actor of
   * the run
   */
  readonly operator?: Operator<Actor>;
};

/** A call that was made, or refused. */
export interface ExplainedCallRequest<Actor = RegisteredActor> {
  readonly runId: string;
  readonly toolCallId: string;
  readonly operator: Operator<Actor>;
  /** @default the operator's own */
  readonly tenant?: string;
}

/**
 * The entries of the audit about one call, in their order: decisions and their reasons, questions
 * and answers of people, the outcome.
 */
export interface CallExplanation {
  readonly runId: string;
  readonly toolCallId: string;
  readonly declaredId?: string;
  readonly events: readonly CallEvent[];
}

/** One entry of the audit about a call. */
export interface CallEvent {
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly kind: AuditEntry['kind'];
  /** Policy's decision: the rule, its reason and the version of the policy. */
  readonly decision?: Decision;
  readonly reason?: string;
  readonly decidedBy?: string;
  readonly status?: string;
  readonly code?: string;
}

function toEvent(entry: AuditEntry): CallEvent {
  const { at, kind } = entry;
  return {
    at,
    kind,
    ...('decision' in entry && typeof entry.decision === 'object' && { decision: entry.decision }),
    ...('reason' in entry && entry.reason !== undefined && { reason: entry.reason }),
    ...('decidedBy' in entry && { decidedBy: entry.decidedBy }),
    ...('status' in entry && { status: entry.status }),
    ...('code' in entry && entry.code !== undefined && { code: entry.code }),
  };
}
