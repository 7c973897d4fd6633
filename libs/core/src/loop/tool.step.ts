import { Injectable, Logger } from '@nestjs/common';
import { from, lastValueFrom, mergeMap, toArray } from 'rxjs';
import type { Toolset } from '../catalog/toolset.js';
import type { CallRequest, ToolOutcome } from '../execution/execution.scope.js';
import { untilAborted } from '../execution/interruption.js';
import { meantCall } from '../execution/meant-call.js';
import { ToolRunner } from '../execution/tool.runner.js';
import { applyInjection, roomIn, type AppliedInjection } from '../injection/injection.applier.js';
import type { FinishReason } from '../protocol/loop-result.js';
import type { Message, MessageLabels, ToolCall, ToolMessage } from '../protocol/message.js';
import type { ToolErrorCode } from '../protocol/tool-error.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { LiveRun } from './live.run.js';
import type { PendingStep } from './pending.step.js';

/** Where the calls of a step stand. */
export interface ToolStepContext {
  readonly step: number;
  /** The run's, which injection changes. */
  readonly toolset: Toolset;
  /** What of it the model was offered in this step: nothing else is called. */
  readonly offered: Toolset;
  /** The transcript up to and including the answer that made the calls. */
  readonly history: readonly Message[];
  readonly injected: readonly ToolSpec[];
  readonly live: LiveRun;
  /** Set where the step waited for decisions: what became of its calls until then. */
  readonly pending?: Pick<PendingStep, 'outcomes' | 'limit'>;
}

/** What the calls of a step came to, in the order of the calls. */
export interface ToolStepResult {
  readonly messages: readonly ToolMessage[];
  readonly records: readonly ToolInvocationRecord[];
  readonly toolset: Toolset;
  readonly injected: readonly ToolSpec[];
  readonly finish?: FinishReason;
  /** Set where calls wait for decisions: then there are no messages and no records yet. */
  readonly pending?: Pick<PendingStep, 'outcomes' | 'limit'>;
}

interface PlannedCall extends CallRequest {
  readonly limit?: FinishReason;
  /** What the call means: over a surface, the call of an entity's own tool. */
  readonly meant: { readonly call: ToolCall; readonly tool: Tool | undefined };
}

/** Runs the calls of one answer: reads together, writes behind them in the model's order; then looks at every result for tools to inject. */
@Injectable()
export class ToolStep {
  private readonly logger = new Logger(ToolStep.name);

  constructor(private readonly runner: ToolRunner) {}

  async run(calls: readonly ToolCall[], context: ToolStepContext): Promise<ToolStepResult> {
    const done = doneBefore(context);
    const due = calls.flatMap((call, index) => (done.some(({ record }) => record.index === index) ? [] : [plan(call, index, context)]));
    const planned = context.pending ? due : await withinQuotas(due, context);
    const outcomes = [...done, ...(await this.execute(planned, context))].toSorted((a, b) => a.record.index - b.record.index);
    const limit = context.pending?.limit ?? planned.find((one) => one.limit)?.limit;
    if (outcomes.some(({ isPending }) => isPending)) return waitingFor({ outcomes, ...(limit && { limit }) }, context);
    const records = outcomes.map(({ record }) => record);
    const { toolset, injected } = await this.inject(outcomes, calls, context);
    const finish = limit ?? haltFor(records, context.live) ?? context.live.counter.refusalLimit(records);
    return { messages: outcomes.map((outcome) => toMessage(outcome, calls)), records, toolset, injected, ...(finish && { finish }) };
  }

  private async execute(planned: readonly PlannedCall[], context: ToolStepContext): Promise<ToolOutcome[]> {
    const { live } = context;
    const reads = planned.filter((request) => !isWrite(request));
    const together = from(reads).pipe(
      mergeMap((request) => this.executeOne(request, context), Math.max(1, live.plan.execution.limits.parallelReads)),
      toArray(),
    );
    const outcomes = await lastValueFrom(together);
    for (const request of planned.filter(isWrite)) {
      const isHalted =
        haltFor(
          outcomes.map(({ record }) => record),
          live,
        ) !== undefined;
      const isHeld = outcomes.some(({ isPending, record }) => isPending && record.effect !== 'read_only');
      const refusal = { code: 'aborted', safeMessage: 'The run was halted before this call.' } as const;
      outcomes.push(await this.executeOne({ ...request, ...(isHalted && { refusal }), ...(isHeld && { isHeld }) }, context));
    }
    return outcomes;
  }

  private async executeOne(request: PlannedCall, { offered, live, history }: ToolStepContext): Promise<ToolOutcome> {
    const { call, tool } = request.meant;
    if (tool?.entity) live.instances.used(tool);
    if (tool) await live.notify((hooks) => hooks.onToolStart?.(call, tool.spec));
    const outcome = await this.runner.exec(request, live.scope(offered, history));
    if (outcome.isPending) return outcome;
    await live.notify((hooks) => hooks.onToolEnd?.(outcome.record));
    return outcome;
  }

  private async inject(
    outcomes: readonly ToolOutcome[],
    calls: readonly ToolCall[],
    context: ToolStepContext,
  ): Promise<Pick<ToolStepResult, 'toolset' | 'injected'>> {
    const { live } = context;
    let { toolset, injected } = context;
    for (const outcome of outcomes) {
      for (const strategy of live.plan.injection.strategies) {
        const applied = await this.applied(
          strategy,
          { ...outcome, returnedBy: sourceOf(outcome, calls) },
          { ...context, toolset, injected },
        );
        toolset = applied.toolset;
        injected = applied.added.length > 0 ? [...injected, ...applied.added] : injected;
        for (const event of applied.events) await live.emit(event);
      }
    }
    return live.withReader({ toolset, injected }, context.step);
  }

  /** A strategy that fails, or hands over what cannot be applied, changes nothing. */
  private async applied(
    strategy: ToolInjectionStrategy,
    { tool, record, live: result, returnedBy }: ToolOutcome & { readonly returnedBy: string },
    context: ToolStepContext,
  ): Promise<AppliedInjection> {
    const { live, step, history, toolset, injected } = context;
    const { execution, injection, strictListing } = live.plan;
    if (!tool) return { toolset, added: [], events: [] };
    try {
      const { declared } = tool.output;
      const last = { record, tool: tool.spec, live: result, ...(declared && { returns: declared }), depth: tool.entity?.depth ?? 0 };
      const { run, limits } = execution;
      const withheld = injection.reserve.of(strategy);
      const room = roomIn(toolset, injected, limits);
      const found = strategy.evaluate({
        run,
        history,
        toolset: toolset.reachable,
        last,
        step,
        limits,
        handles: live.handles,
        withheld,
        room,
      });
      const proposed = await untilAborted(Promise.resolve(found), live.signal);
      const { exclude, entities } = injection;
      const rules = { ...execution, exclude, entities, instances: live.instances, strictListing, signal: live.signal };
      return await applyInjection(toolset, proposed, rules, { step, strategy: strategy.name, injected, returnedBy });
    } catch (error) {
      if (live.signal.aborted) return { toolset, added: [], events: [] };
      this.logger.error(`The injection strategy ${strategy.name} failed (run ${execution.run.runId}).`, error);
      const message = `The injection strategy ${strategy.name} failed.`;
      return { toolset, added: [], events: [{ type: 'warning', step, code: 'injection_failed', message }] };
    }
  }
}

/** What became of the calls that were made before the step waited. */
function doneBefore({ pending }: ToolStepContext): readonly ToolOutcome[] {
  return (pending?.outcomes ?? []).filter(({ isPending }) => !isPending);
}

function waitingFor(pending: NonNullable<ToolStepResult['pending']>, { toolset, injected }: ToolStepContext): ToolStepResult {
  return { messages: [], records: [], toolset, injected, finish: 'waiting', pending };
}

function plan(call: ToolCall, index: number, { step, offered, live, pending }: ToolStepContext): PlannedCall {
  const meant = meantCall(call, offered, live.plan.execution.limits.argumentBytes) ?? { call, tool: offered.find(call.name) };
  if (pending) return { call, step, index, meant }; // counted when it was first made
  const limit = live.counter.admit(meant.call, meant.tool?.spec.declaredId ?? call.name);
  return { call, step, index, meant, ...(limit && { limit: limit.reason, refusal: limit.refusal }) };
}

/** Refuses the calls beyond the tenant's quotas, the last ones first. What is refused already, or names no tool, takes nothing of them. */
async function withinQuotas(due: readonly PlannedCall[], { live }: ToolStepContext): Promise<readonly PlannedCall[]> {
  const { quotas } = live.plan;
  const counted = due.filter(({ meant, refusal }) => !refusal && meant.tool && !meant.tool.surface);
  if (!quotas || counted.length === 0) return due;
  const { calls, beyond } = await quotas.takeCalls(counted.length, live.signal);
  const refused = new Set(counted.slice(calls));
  return due.map((one) => (refused.has(one) ? { ...one, ...beyond } : one));
}

/** An unknown tool counts as a read: it does nothing. */
function isWrite({ meant: { tool } }: PlannedCall): boolean {
  return tool !== undefined && tool.spec.effect !== 'read_only';
}

function haltFor(records: readonly ToolInvocationRecord[], { plan: { options } }: LiveRun): FinishReason | undefined {
  if (options.onToolError === 'halt' && records.some(({ status }) => status === 'failed')) return 'tool_error';
  if (options.onForbidden === 'halt' && records.some(({ status }) => status === 'denied')) return 'forbidden';
  return undefined;
}

/** What the model reads, under the name by which it called. */
export function toMessage({ record, content, tool }: ToolOutcome, calls: readonly ToolCall[]): ToolMessage {
  const labels = tool && { labels: labelsOf(tool, record.error?.code) };
  const { name: toolName } = callOf(record, calls) ?? { name: record.id };
  return { role: 'tool', toolCallId: record.toolCallId, toolName, content, ...(record.error && { isError: true }), ...labels };
}

function callOf({ toolCallId }: ToolInvocationRecord, calls: readonly ToolCall[]): ToolCall | undefined {
  return calls.find((call) => call.toolCallId === toolCallId);
}

/** A call in words, for a model that wants the same result again. */
function sourceOf({ record }: ToolOutcome, calls: readonly ToolCall[]): string {
  const { name } = callOf(record, calls) ?? { name: record.id };
  const isSurface = record.entity !== undefined && name !== record.id;
  return isSurface ? `${name} of ${record.entity.provider} ${JSON.stringify(record.entity.instanceId.slice(0, 80))}` : name;
}

/** Refusals in our own words tell nothing that the model had not read; what a tool says of its failure may. */
const OWN_WORDS = new Set<ToolErrorCode>([
  'unknown_tool',
  'tool_gone',
  'invalid_json',
  'tenant_override',
  'policy_denied',
  'approval_denied',
  'timeout',
  'aborted',
]);

function labelsOf({ origin, spec: { labels } }: Tool, code: ToolErrorCode | undefined): MessageLabels {
  return code !== undefined && OWN_WORDS.has(code)
    ? { returns: 'trusted', reads: 'public' }
    : { returns: origin.trusted ? labels.returns : 'untrusted', reads: labels.reads };
}
