import type { FinishReason, ToolCall, ToolInvocationRecord, ToolMessage } from '@toolloop/protocol';
import { from, lastValueFrom, mergeMap, toArray } from 'rxjs';
import type { PlacedCall } from '../call/call.js';
import type { ToolOutcome } from '../call/outcome.js';
import { ToolRunner } from '../call/tool-runner.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Tool } from '../contracts/tool.js';
import { DirectiveUpdates } from '../plugins/directives/directive-updates.js';
import { ToolProviderExtractor } from '../plugins/entities/entity-extraction.js';
import { operationName } from '../plugins/entities/entity-surfaces.js';
import { resolveSurfaceCall } from '../plugins/entities/surface-call.js';
import {
  type InjectionContext,
  type ResultInjection,
  shownResult,
} from '../plugins/injection/result-injection.js';
import { labelsReadBy } from '../plugins/sessions/call-account.js';
import type { PluginFinish } from '../plugin/run-points.js';
import { isPermitted } from '../policy/decide.js';
import type { LiveRun } from '../run/live-run.js';
import type { CallSession } from '../run/run-plan.js';
import { checkpointIn, type Finish, type PendingStep } from './loop-state.js';
import { toMessage } from './tool-message.js';

/**
 * Runs the calls of one answer in the model's order: neighbouring reads together, a write by
 * itself. A call that waits for a person holds back the next write and everything behind it. Once
 * every call has its result, strategies look at all of them for tools to inject.
 */
export class ToolStep {
  constructor(
    private readonly runner: ToolRunner,
    private readonly entities: ToolProviderExtractor,
    private readonly updates: DirectiveUpdates,
    private readonly injection: ResultInjection,
  ) {}

  run(calls: readonly ToolCall[], context: ToolStepContext): Promise<ToolStepResult> {
    const [only] = calls;
    const isAlone = only && calls.length === 1 && !context.pending;
    return isAlone ? this.callOnce(only, context) : this.runAll(calls, context);
  }

  /** Makes one call, as in most steps, and as a call without a model is. */
  async callOnce(call: ToolCall, context: ToolStepContext): Promise<ToolStepResult> {
    const placed = placedCall(call, 0, context);
    const [planned = placed] = await admitted([placed], context);
    const outcome = await this.executeOne(planned, context, () => false);
    const toolset = outcome.isPending
      ? context.toolset
      : await this.injected([outcome], [call], context);
    const made = outcome.hinted ? this.hinted(outcome, context.live, toolset) : outcome;
    return this.stepOf([made], [call], limitOf([planned]), { ...context, toolset });
  }

  private async runAll(
    calls: readonly ToolCall[],
    context: ToolStepContext,
  ): Promise<ToolStepResult> {
    const done = doneBefore(context);
    const placed = calls.map((call, index) => placedCall(call, index, context));
    const planned = await admitted(placed, context);
    const outcomes = (await this.execute(planned, done, context)).toSorted(
      (a, b) => a.record.index - b.record.index,
    );
    const isWaiting = outcomes.some(({ isPending }) => isPending);
    const toolset = isWaiting ? context.toolset : await this.injected(outcomes, calls, context);
    const made = outcomes.map((outcome) =>
      outcome.hinted ? this.hinted(outcome, context.live, toolset) : outcome,
    );
    return this.stepOf(made, calls, context.pending?.limit ?? limitOf(planned), {
      ...context,
      toolset,
    });
  }

  private stepOf(
    outcomes: readonly ToolOutcome[],
    calls: readonly ToolCall[],
    limit: Finish | undefined,
    context: ToolStepContext,
  ): ToolStepResult {
    const { live, toolset } = context;
    if (outcomes.some(({ isPending }) => isPending)) {
      const kept = outcomes.map((outcome) => this.withEntities(outcome, live));
      const pending = { outcomes: kept, isPlanned: true, ...(limit && { limit }) };
      return { messages: [], records: [], toolset, finish: { reason: 'waiting' }, pending };
    }
    const records = outcomes.map(({ record }) => record);
    const halted = haltFor(records, live);
    const finish = limit ?? (halted && { reason: halted });
    const messages = outcomes.map((outcome) => toMessage(outcome, calls));
    return { messages, records, toolset, ...(finish && { finish }) };
  }

  /**
   * Injects what the results bring. The calls of a session change its tools one after the other.
   */
  private injected(
    outcomes: readonly ToolOutcome[],
    calls: readonly ToolCall[],
    context: ToolStepContext,
  ): Promise<Toolset> {
    const { session } = context;
    if (!session) return this.injection.inject(outcomes, calls, context);
    return session.change((toolset) =>
      this.injection.inject(
        outcomes,
        calls,
        toolset === context.toolset ? context : { ...context, toolset },
      ),
    );
  }

  /**
   * Adds the entities of a result, which are injected once its step is complete: possibly in a
   * process that no longer has the result.
   */
  private withEntities(outcome: ToolOutcome, live: LiveRun): ToolOutcome {
    if (!outcome.tool || outcome.live === undefined) return outcome;
    return {
      ...outcome,
      entities: this.entities.keysIn(shownResult(outcome, outcome.tool), live.plan.execution.run),
    };
  }

  /**
   * Adds the operations on entities to the text for the model: known only now that every result of
   * the step has brought its tools.
   */
  private hinted(outcome: ToolOutcome, { plan, roles }: LiveRun, toolset: Toolset): ToolOutcome {
    const authority = roles.now();
    const permitted = toolset.tools.filter((tool) => tool.entity && isPermitted(tool, authority));
    const operationsOn = this.entities.namesFor(permitted, plan.execution.run, (tool) =>
      operationName(tool, toolset),
    );
    return outcome.hinted ? { ...outcome, content: outcome.hinted(operationsOn) } : outcome;
  }

  /** Stops telling the run about directives that continue without it. */
  leave(runId: string): void {
    this.updates.forget(runId);
  }

  private async execute(
    planned: readonly StepCall[],
    done: readonly ToolOutcome[],
    context: ToolStepContext,
  ): Promise<readonly ToolOutcome[]> {
    const outcomes = [...done];
    const stages = stagesOf(planned);
    for (const [number, stage] of stages.entries()) {
      const before = outcomes.filter(({ record }) => record.index < stage.first);
      const due = stage.calls.filter(
        ({ index }) => !done.some(({ record }) => record.index === index),
      );
      const ordered = due.map((request) => inOrder(request, before, context.live));
      outcomes.push(...(await this.together(ordered, number < stages.length - 1, context)));
    }
    return outcomes;
  }

  /**
   * Calls whose order cannot be seen. What they read is kept before a write behind them begins:
   * made again after it, they would read what it changed.
   */
  private together(
    calls: readonly StepCall[],
    isFollowed: boolean,
    context: ToolStepContext,
  ): Promise<ToolOutcome[]> {
    const { parallelReads } = context.live.plan.execution.limits;
    let running = calls.length;
    const isLast = (): boolean => (running -= 1) === 0 && isFollowed;
    const made = from(calls).pipe(
      mergeMap((request) => this.executeOne(request, context, isLast), Math.max(1, parallelReads)),
      toArray(),
    );
    return lastValueFrom(made);
  }

  /** Makes a call, and keeps its outcome in a durable run. */
  private async executeOne(
    request: StepCall,
    context: ToolStepContext,
    isLast: () => boolean,
  ): Promise<ToolOutcome> {
    const { live } = context;
    const outcome = await this.exec(request, context);
    const mustBeKept = isLast();
    if (outcome.isPending) return outcome;
    const matched = this.injection.withTriggers(outcome, live);
    // a rehearsal keeps whole steps: what it did in another is made again
    if (live.recorder && !live.rehearsal)
      await live.recorder.called(this.withEntities(matched, live), mustBeKept);
    return matched;
  }

  /** Makes a call once the account of its session knows what it may read. */
  private async exec(
    request: StepCall,
    { live, offered, history, toolset }: ToolStepContext,
  ): Promise<ToolOutcome> {
    const { tool } = request.meant;
    if (tool?.entity) live.instances.used(tool);
    if (tool && mustNote(live, tool)) await live.plan.account?.note(labelsReadBy(tool));
    const scope = live.scope(offered, history, toolset);
    return this.runner.exec(request, tool?.directive ? this.updates.following(scope) : scope);
  }
}

/** The surroundings of the calls of a step. */
export interface ToolStepContext extends InjectionContext {
  /** The tools that the model was offered in this step: no other is called. */
  readonly offered: Toolset;
  /** Set for a call of a session, whose tools it changes. */
  readonly session?: Pick<CallSession, 'change'> | undefined;
  /** Set where the step was begun before: what became of its calls until then. */
  readonly pending?: Pick<PendingStep, 'outcomes' | 'limit' | 'isPlanned' | 'checkpoints'>;
}

/** The outcomes of the calls of a step, in the order of the calls. */
export interface ToolStepResult {
  readonly messages: readonly ToolMessage[];
  readonly records: readonly ToolInvocationRecord[];
  readonly toolset: Toolset;
  readonly finish?: Finish;
  /** Set where calls wait for decisions: then there are no messages and no records yet. */
  readonly pending?: Pick<PendingStep, 'outcomes' | 'limit' | 'isPlanned'>;
}

interface StepCall extends PlacedCall {
  /** The end of the run, if the call is beyond a limit. */
  readonly finish?: PluginFinish;
  /** The call that is meant: over a surface, the call of an entity's own tool. */
  readonly meant: { readonly call: ToolCall; readonly tool: Tool | undefined };
}

/**
 * Returns whether an account is to be told of what a call may read. One that policy denies reads
 * nothing.
 */
function mustNote({ plan: { account }, roles }: LiveRun, tool: Tool): boolean {
  return account?.lacks(labelsReadBy(tool)) === true && isPermitted(tool, roles.now());
}

/**
 * Returns the outcomes of the calls that were made before the step waited. If their process is
 * gone, only they tell that they used their entities.
 */
function doneBefore({ pending, live }: ToolStepContext): readonly ToolOutcome[] {
  const done = doneIn(pending);
  for (const { tool } of done) if (tool?.entity) live.instances.used(tool);
  return done;
}

function doneIn(pending: ToolStepContext['pending']): readonly ToolOutcome[] {
  return (pending?.outcomes ?? []).filter(({ isPending }) => !isPending);
}

/** Returns the end that the first call beyond a limit gives the run. */
function limitOf(planned: readonly StepCall[]): Finish | undefined {
  return planned.find(({ finish }) => finish)?.finish;
}

/** Places a call in its step, also one that was made by a process that is gone. */
function placedCall(call: ToolCall, index: number, context: ToolStepContext): StepCall {
  const { step, offered, live, pending } = context;
  const meant = resolveSurfaceCall(call, offered, live.plan.execution.limits.argumentBytes) ?? {
    call,
    tool: offered.find(call.name),
  };
  const beginning = (pending || live.plan.within) && beginningOf(call, index, context);
  return { call, step, index, meant, ...beginning };
}

/** Returns the calls of a step, with refusals of those that a plugin does not admit. */
async function admitted(
  placed: readonly StepCall[],
  { live: { plugins }, pending }: ToolStepContext,
): Promise<readonly StepCall[]> {
  const { hooks, view } = plugins;
  if (!hooks.admit || pending?.isPlanned) return placed; // admitted when they were first made
  const made = new Set(doneIn(pending).map(({ record }) => record.index));
  const asked = placed.map(({ call, index, meant: { tool } }) => ({
    call,
    index,
    tool,
    isMade: made.has(index),
  }));
  const limits = await hooks.admit(asked, view);
  return placed.map((one) => ({ ...one, ...limits.find(({ index }) => index === one.index) }));
}

/** Returns the possible state of a call before this process came to it. */
function beginningOf(
  { toolCallId }: ToolCall,
  index: number,
  { live, pending }: ToolStepContext,
): Pick<PlacedCall, 'mayHaveRun' | 'checkpoint'> {
  const isTakenOver = live.recorder !== undefined || live.start.resumed?.isTakenOver === true;
  const mayHaveRun = (pending && isTakenOver) || live.plan.within?.mayHaveRun;
  const checkpoint = pending && checkpointIn(pending, toolCallId, index);
  return { ...(mayHaveRun && { mayHaveRun: true }), ...(checkpoint && { checkpoint }) };
}

/** Calls that are made together, and the index of the first of them. */
interface CallStage {
  readonly first: number;
  readonly calls: readonly StepCall[];
}

/** Neighbouring reads are one stage, each write is one by itself. */
function stagesOf(planned: readonly StepCall[]): readonly CallStage[] {
  const stages: {
    readonly first: number;
    readonly calls: StepCall[];
    readonly isWrite: boolean;
  }[] = [];
  for (const request of planned) {
    const last = stages.at(-1);
    if (last && !last.isWrite && !isWrite(request)) last.calls.push(request);
    else stages.push({ first: request.index, calls: [request], isWrite: isWrite(request) });
  }
  return stages;
}

/**
 * A call as the stages before it leave it: refused where one of their calls halted the run, held
 * back where one waits for a person.
 */
function inOrder(request: StepCall, before: readonly ToolOutcome[], live: LiveRun): StepCall {
  if (request.refusal) return request;
  const records = before.map(({ record }) => record);
  if (haltFor(records, live))
    return {
      ...request,
      refusal: { code: 'aborted', safeMessage: 'The run was halted before this call.' },
    };
  return before.some(({ isPending }) => isPending) ? { ...request, isDeferred: true } : request;
}

/** An unknown tool counts as a read: it does nothing. */
function isWrite({ meant: { tool } }: StepCall): boolean {
  return tool !== undefined && tool.spec.effect !== 'read_only';
}

/**
 * Why the first call that halts the run does so: the calls behind it are refused for it, and are no
 * cause themselves.
 */
function haltFor(
  records: readonly ToolInvocationRecord[],
  { plan: { options } }: LiveRun,
): FinishReason | undefined {
  const halting = records.find(
    ({ status }) =>
      (status === 'failed' && options.onToolError === 'halt') ||
      (status === 'denied' && options.onForbidden === 'halt'),
  );
  return halting && (halting.status === 'failed' ? 'tool_error' : 'forbidden');
}
