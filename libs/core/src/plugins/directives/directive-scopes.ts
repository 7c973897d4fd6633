import { BoundedStores } from '../../call/bounded-stores.js';
import { CallFailure } from '../../call/call-failure.js';
import { withinTime } from '../../contracts/interruption.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import { Toolset } from '../../catalog/toolset.js';
import type { CallJournal, JournalEntry } from '../../contracts/call-journal.js';
import type {
  DirectiveApproval,
  DirectiveAuthority,
  DirectiveRecord,
} from '../../contracts/directive.js';
import { ActorDirectory } from '../../contracts/actor-directory.js';
import type { InformationFlow } from '../../contracts/policy.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { Tool } from '../../contracts/tool.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { compileReveal } from '../../schema/reveal.js';
import { ToolExplorer } from '../../tools/discovery/tool-explorer.js';
import type { Plugins } from '../../plugin/plugins.js';
import { RunApprovals } from '../approvals/run-approvals.js';
import { readStoredPolicy } from '../flow/dropped-levels.js';
import { SpendingLedger } from '../usage/spending.js';
import { effectKeyOf } from './attempt-verdict.js';
import { DirectiveAttempt } from './directive-attempt.js';
import {
  type DirectiveExecution,
  type DirectiveTool,
  directiveToolOf,
} from './directive-execution.js';

/**
 * Makes the place where a directive is performed: whose it is now, under which rules, and which
 * tool.
 */
export class DirectiveScopes {
  private readonly journal: CallJournal;

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly identity: ActorIdentity,
    private readonly explorer: ToolExplorer,
    private readonly plugins: Plugins,
    stores: BoundedStores,
  ) {
    this.journal = stores.journal;
  }

  /**
   * Throws a `CallFailure` for whom or what is not there any more, and anything else where that
   * could not be found out.
   */
  async open(
    record: DirectiveRecord,
    attempt: DirectiveAttempt,
    signal: AbortSignal,
  ): Promise<DirectiveExecution> {
    const { intent } = record;
    const { call, authority, tenant, correlationId } = intent;
    const found = directiveToolOf(this.catalog, intent);
    if (!found)
      throw CallFailure.of(
        'tool_gone',
        `The tool ${call.declaredId} does not take directives of this type any more.`,
      );
    const tool = record.task === 'compensate' ? undoing(found, record) : found;
    const actor = await this.actorOf(authority, tenant);
    const run: RunContext = { runId: call.runId, actor, tenant, context: {}, state: new Map() };
    const limits = this.settings.limitsFor();
    const { toolCallId, step, index, args } = call;
    return {
      request: {
        call: { toolCallId, name: tool.spec.id, arguments: args },
        step,
        index,
        outside: authority.flow.outside,
      },
      scope: {
        run,
        requestId: correlationId,
        actorId: authority.actorId,
        toolset: Toolset.of([tool]),
        actor: { tenant, roles: this.identity.rolesOf(actor) },
        policies: this.settings.policiesFor(authority.policies.map(readStoredPolicy)),
        flow: flowOf(authority),
        spending: new SpendingLedger(),
        approvals: new RunApprovals('deny', undefined, approvalOf(record)),
        limits,
        plugins: this.plugins.begin({
          context: run,
          requestId: correlationId,
          actorId: authority.actorId,
          mode: 'live',
          approvals: 'deny',
          limits,
          options: {},
          signal,
        }),
        performing: attempt,
        signal,
        emit: () => undefined,
      },
    };
  }

  /**
   * Returns the journal's entry for an attempt whose process died before it could report; undefined
   * if none has begun the effect.
   */
  earlier(record: DirectiveRecord): Promise<JournalEntry | undefined> {
    const { tenant, call } = record.intent;
    const { declaredId, instanceId, args } = call;
    const instance = instanceId !== undefined && { instanceId };
    return this.journal.find({
      tenant,
      idempotencyKey: effectKeyOf(record),
      declaredId,
      ...instance,
      args,
    });
  }

  private directory(): ActorDirectory | undefined {
    return this.explorer.instancesOf(ActorDirectory)[0];
  }

  /** Loads the actor as of now; another one under the same id does not count. */
  private async actorOf({ actorId }: DirectiveAuthority, tenant: string): Promise<unknown> {
    const finding = Promise.resolve(this.directory()?.find(actorId, tenant));
    const actor: unknown = await withinTime(finding, LONGEST_FIND_MS);
    if (actor === undefined || actor === null || this.identity.idOf(actor) !== actorId)
      throw CallFailure.of(
        'forbidden',
        'The actor in whose name this was asked for is not there any more.',
      );
    return actor;
  }
}

/** A directory that has not answered by then is tried again later. */
const LONGEST_FIND_MS = 10_000;
const NOTHING = compileReveal([]);

/** The same tool under the same rules, whose method undoes. */
function undoing(tool: DirectiveTool, record: DirectiveRecord): Tool {
  const { rehydration } = tool;
  const undone = withUndoing(tool, record);
  return rehydration
    ? {
        ...undone,
        rehydration: {
          ...rehydration,
          on: (instance) => withUndoing(rehydration.on(instance), record),
        },
      }
    : undone;
}

function withUndoing(tool: Tool, { intent, result }: DirectiveRecord): Tool {
  const [{ directive }, { directiveId, key: idempotencyKey }] = [tool, intent];
  const performed = { directiveId, idempotencyKey, ...(result !== undefined && { result }) };
  if (!directive?.compensate)
    throw CallFailure.of(
      'tool_gone',
      `The tool ${intent.call.declaredId} cannot undo its effect any more.`,
    );
  return {
    ...tool,
    output: NOTHING,
    invoke: (input, context) => directive.compensate?.(input, performed, context),
  };
}

/**
 * Returns the approval of a directive. What was performed may be undone, whatever its tool is by
 * now.
 */
function approvalOf({
  task,
  intent: { authority },
}: DirectiveRecord): DirectiveApproval | undefined {
  if (task === 'perform' || !authority.approved) return authority.approved;
  const { form: _form, ...approved } = authority.approved;
  return approved;
}

/** Returns the recorded flow. `isSaid` is asked about reads alone, and a directive is none. */
function flowOf({ flow }: DirectiveAuthority): InformationFlow {
  const {
    integrity,
    confidentiality,
    committed = false,
    outsideBits = integrity === 'trusted' ? 0 : Infinity,
  } = flow;
  return {
    integrity,
    confidentiality,
    outsideBits,
    mayCommit: false,
    isCommitted: (_tool, { fixed }) => committed === true || committed === fixed,
    isSaid: () => false,
  };
}
