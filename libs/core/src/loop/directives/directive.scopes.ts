import { Injectable } from '@nestjs/common';
import { BoundedStores } from '../../execution/bounded.stores.js';
import { ToolCatalog } from '../../catalog/tool.catalog.js';
import { Toolset } from '../../catalog/toolset.js';
import { ToolExplorer } from '../../discovery/tool.explorer.js';
import { CallFailure } from '../../execution/call.failure.js';
import type { DirectiveAttempt } from '../../execution/directive.attempt.js';
import type { CallRequest, ExecutionScope } from '../../execution/execution.scope.js';
import { withinTime } from '../../execution/interruption.js';
import { RunApprovals } from '../../execution/run.approvals.js';
import { ActorIdentity } from '../../policy/actor.identity.js';
import { SpendingLedger } from '../../policy/spending.ledger.js';
import { ActorDirectory } from '../../protocol/actor-directory.js';
import type { CallJournal, JournalEntry } from '../../protocol/call-journal.js';
import type { DirectiveAuthority, DirectiveIntent, DirectiveRecord } from '../../protocol/directive.js';
import type { InformationFlow } from '../../protocol/policy.js';
import type { RunContext } from '../../protocol/tool-call-context.js';
import type { Tool, ToolDirective } from '../../protocol/tool.js';
import { compileReveal } from '../../schema/revealed.projection.js';
import { LoopSettings } from '../loop.settings.js';
import { effectKeyOf } from './directive.verdict.js';

/** A directory that has not answered by then is tried again later. */
const LONGEST_FIND_MS = 10_000;
const NOTHING = compileReveal([]);

/** A tool whose calls are directives. */
export type DirectiveTool = Tool & { readonly directive: ToolDirective };

/** The call of a directive, and where it is executed. */
export interface DirectiveExecution {
  readonly request: CallRequest;
  readonly scope: ExecutionScope;
}

/** Makes the place where a directive is performed: whose it is now, under which rules, and which tool. */
@Injectable()
export class DirectiveScopes {
  private readonly journal: CallJournal;

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly identity: ActorIdentity,
    private readonly explorer: ToolExplorer,
    stores: BoundedStores,
  ) {
    this.journal = stores.journal;
  }

  get hasDirectory(): boolean {
    return this.directory() !== undefined;
  }

  /** The tool of a directive; undefined where the application has none any more. The instance of an entity would be found here. */
  toolOf({ call, type }: DirectiveIntent): DirectiveTool | undefined {
    const tool = call.instanceId === undefined ? this.catalog.find(call.declaredId) : undefined;
    return tool?.directive?.type === type ? { ...tool, directive: tool.directive } : undefined;
  }

  /** Throws a `CallFailure` for whom or what is not there any more, and anything else where that could not be found out. */
  async open(record: DirectiveRecord, attempt: DirectiveAttempt, signal: AbortSignal): Promise<DirectiveExecution> {
    const { intent } = record;
    const { call, authority, tenant, correlationId } = intent;
    const found = this.toolOf(intent);
    if (!found) throw CallFailure.of('tool_gone', `The tool ${call.declaredId} does not take directives of this type any more.`);
    const tool = record.task === 'compensate' ? undoing(found, record) : found;
    const actor = await this.actorOf(authority, tenant);
    const run: RunContext = { runId: call.runId, actor, tenant, context: {}, state: new Map() };
    return {
      request: { call: { toolCallId: call.toolCallId, name: tool.spec.id, arguments: call.args }, step: call.step, index: call.index },
      scope: {
        run,
        requestId: correlationId,
        actorId: authority.actorId,
        toolset: Toolset.of([tool]),
        actor: { tenant, roles: this.identity.rolesOf(actor) },
        policies: this.settings.policiesFor(authority.policies),
        flow: flowOf(authority),
        spending: new SpendingLedger(),
        approvals: new RunApprovals('deny', undefined, authority.approved),
        limits: this.settings.limitsFor(),
        performing: attempt,
        signal,
        emit: () => undefined,
      },
    };
  }

  /** What an attempt came to whose process died before it could say so; undefined where none has begun the effect. */
  earlier(record: DirectiveRecord): Promise<JournalEntry | undefined> {
    const { tenant, call } = record.intent;
    const { declaredId, instanceId, args } = call;
    const instance = instanceId !== undefined && { instanceId };
    return this.journal.find({ tenant, idempotencyKey: effectKeyOf(record), declaredId, ...instance, args });
  }

  private directory(): ActorDirectory | undefined {
    return this.explorer.instancesOf(ActorDirectory)[0];
  }

  /** Whoever they are now: somebody else under the same id is nobody. */
  private async actorOf({ actorId }: DirectiveAuthority, tenant: string): Promise<unknown> {
    const finding = Promise.resolve(this.directory()?.find(actorId, tenant));
    const actor: unknown = await withinTime(finding, LONGEST_FIND_MS);
    if (actor === undefined || actor === null || this.identity.idOf(actor) !== actorId)
      throw CallFailure.of('forbidden', 'The actor in whose name this was asked for is not there any more.');
    return actor;
  }
}

/** The same tool under the same rules, whose method undoes. */
function undoing(tool: DirectiveTool, { intent, result }: DirectiveRecord): Tool {
  const { directive } = tool;
  const { directiveId, key: idempotencyKey } = intent;
  const performed = { directiveId, idempotencyKey, ...(result !== undefined && { result }) };
  if (!directive.compensate) throw CallFailure.of('tool_gone', `The tool ${intent.call.declaredId} cannot undo its effect any more.`);
  return { ...tool, output: NOTHING, invoke: (input, context) => directive.compensate?.(input, performed, context) };
}

/** What the user said is asked of reads alone, and a directive is none. */
function flowOf({ flow }: DirectiveAuthority): InformationFlow {
  const { integrity, confidentiality } = flow;
  const traced = new Set(flow.traced);
  return { integrity, confidentiality, isTraced: (value) => traced.has(value), isSaid: () => false };
}
