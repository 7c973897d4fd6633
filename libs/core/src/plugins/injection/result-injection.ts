import {
  isRecord,
  type Message,
  type ToolCall,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import type { Toolset } from '../../catalog/toolset.js';
import type {
  InjectionResult,
  ToolInjection,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { withinTime } from '../../call/interruption.js';
import type { ToolOutcome } from '../../call/outcome.js';
import { Logger } from '../../findings/logger.js';
import { type AppliedInjection, applyInjection, roomIn } from './apply-injection.js';
import type { ShownResult } from '../entities/entity-extraction.js';
import { triggersMatchedBy, triggersOf } from '../strategies/triggers.js';
import type { LiveRun } from '../../run/live-run.js';
import type { LoopSettings } from '../../run/loop-settings.js';

/** The place of results in their run: the toolset is the run's, which injection changes. */
export interface InjectionContext {
  readonly step: number;
  readonly toolset: Toolset;
  /**
   * Returns the transcript up to and including the answer that made the calls: most results concern
   * no strategy that would read it.
   */
  readonly history: () => readonly Message[];
  readonly live: LiveRun;
}

/** Lets strategies look at the results of a step, and applies what they want. */
export class ResultInjection {
  private readonly logger = new Logger(ResultInjection.name);

  constructor(private readonly settings: LoopSettings) {}

  /**
   * Adds the triggers that strategies match in the live result: asked at once, since the step may
   * end in a process that no longer has it.
   */
  withTriggers(outcome: ToolOutcome, { plan }: LiveRun): ToolOutcome {
    const { strategies } = plan.injection;
    if (!outcome.tool || outcome.live === undefined) return outcome;
    const matchedTriggers = triggersMatchedBy(strategies, {
      record: outcome.record,
      live: outcome.live,
    });
    return matchedTriggers.length === 0 ? outcome : { ...outcome, matchedTriggers };
  }

  /**
   * The tools of the run after these results, in their order, strategy by strategy. At once where
   * nothing changes, as after most results.
   */
  inject(
    outcomes: readonly ToolOutcome[],
    calls: readonly ToolCall[],
    context: InjectionContext,
  ): Toolset | Promise<Toolset> {
    const { toolset } = context;
    const { strategies } = context.live.plan.injection;
    for (const [index, outcome] of outcomes.entries()) {
      const called = asCalled(outcome, calls);
      for (const [number, strategy] of strategies.entries()) {
        const applied = this.applied(strategy, called, context, toolset);
        if (!applied) continue;
        const others = outcomes
          .slice(index + 1)
          .flatMap((other) => looksOf(strategies, asCalled(other, calls)));
        return this.continued(
          applied,
          [...looksOf(strategies.slice(number + 1), called), ...others],
          context,
        );
      }
    }
    return context.live.withReader(toolset, context.step);
  }

  private async continued(
    first: Promise<AppliedInjection>,
    looks: readonly Look[],
    context: InjectionContext,
  ): Promise<Toolset> {
    const { live, step } = context;
    const { emit } = live;
    let toolset = await told(first, emit);
    for (const { strategy, called } of looks) {
      const applied = this.applied(strategy, called, context, toolset);
      if (applied) toolset = await told(applied, emit);
    }
    return live.withReader(toolset, step);
  }

  /**
   * A strategy that fails, is silent for the time of a tool's call, or hands over what cannot be
   * applied, changes nothing. Undefined where nothing changes.
   */
  private applied(
    strategy: ToolInjectionStrategy,
    called: CalledOutcome,
    context: InjectionContext,
    toolset: Toolset,
  ): Promise<AppliedInjection> | undefined {
    const { tool } = called.outcome;
    if (!tool) return undefined;
    try {
      const found = this.proposed(strategy, called, tool, context, toolset);
      return isPromise(found) || !isNothing(found)
        ? this.apply(found, strategy, context, toolset)
        : undefined;
    } catch (error) {
      return this.apply(Promise.reject(error), strategy, context, toolset);
    }
  }

  private proposed(
    strategy: ToolInjectionStrategy,
    called: CalledOutcome,
    tool: Tool,
    { live, step, history }: InjectionContext,
    toolset: Toolset,
  ): ToolInjection | Promise<ToolInjection> {
    const { execution, injection } = live.plan;
    if (strategy.concerns?.(shownResult(called.outcome, tool)) === false) return NOTHING;
    const last = lastResult(
      called,
      tool,
      triggersOf(strategy, injection.strategies, called.outcome.matchedTriggers),
    );
    const { run, limits } = execution;
    const withheld = live.reserve.of(strategy);
    const { handles } = live;
    return strategy.evaluate({
      run,
      history: history(),
      toolset: toolset.reachable,
      last,
      step,
      limits,
      handles,
      withheld,
      room: roomIn(toolset, limits).others,
    });
  }

  private async apply(
    found: ToolInjection | Promise<ToolInjection>,
    strategy: ToolInjectionStrategy,
    { live, step }: InjectionContext,
    toolset: Toolset,
  ): Promise<AppliedInjection> {
    const { run, limits } = live.plan.execution;
    try {
      const proposed = this.settings.admit(
        await withinTime(Promise.resolve(found), limits.toolCallMs, live.signal),
      );
      if (proposed.roles) live.roles.assume(proposed.roles);
      return await applyInjection(toolset, proposed, live.injectionRules(), { step, strategy });
    } catch (error) {
      if (live.signal.aborted) return { toolset, events: [] };
      this.logger.error(
        `The injection strategy ${strategy.name} failed (run ${run.runId}).`,
        error,
      );
      const message = `The injection strategy ${strategy.name} failed.`;
      return { toolset, events: [{ type: 'warning', step, code: 'injection_failed', message }] };
    }
  }
}

/** A strategy that is to look at a result. */
interface Look {
  readonly strategy: ToolInjectionStrategy;
  readonly called: CalledOutcome;
}

function looksOf(
  strategies: readonly ToolInjectionStrategy[],
  called: CalledOutcome,
): readonly Look[] {
  return strategies.map((strategy) => ({ strategy, called }));
}

async function told(applying: Promise<AppliedInjection>, emit: LiveRun['emit']): Promise<Toolset> {
  const { toolset, events } = await applying;
  for (const event of events) await emit(event);
  return toolset;
}

function isPromise<Value>(value: Value | Promise<Value>): value is Promise<Value> {
  return isRecord(value) && 'then' in value;
}

/**
 * True for the proposal of a strategy that changes no toolset and says nothing: that of most
 * results.
 */
function isNothing({
  add = NONE,
  remove = NONE,
  withhold = NONE,
  warnings = NONE,
  roles,
}: ToolInjection): boolean {
  return (
    add.length + remove.length + withhold.length + warnings.length === 0 && roles === undefined
  );
}

const NONE: readonly never[] = [];
const NOTHING: ToolInjection = {};

/** An outcome, with the name that the model called. */
interface CalledOutcome {
  readonly outcome: ToolOutcome;
  readonly calledAs: string | undefined;
}

function asCalled(outcome: ToolOutcome, calls: readonly ToolCall[]): CalledOutcome {
  return { outcome, calledAs: callOf(outcome.record, calls)?.name };
}

/** Returns the result as a strategy sees it. */
function lastResult(
  { outcome, calledAs }: CalledOutcome,
  tool: Tool,
  matchedTriggers: readonly string[] | undefined,
): InjectionResult {
  const { record } = outcome;
  const more = {
    ...(calledAs !== undefined && { calledAs }),
    ...(matchedTriggers && { matchedTriggers }),
  };
  return { record, depth: tool.entity?.depth ?? 0, ...shownResult(outcome, tool), ...more };
}

export function shownResult(
  { live, entities }: ToolOutcome,
  { spec: tool, output: { declared } }: Tool,
): ShownResult {
  return {
    tool,
    live,
    ...(live === undefined && entities && { entities }),
    ...(declared && { returns: declared }),
  };
}

/** The call of which it is the record, as the model made it. */
export function callOf(
  { toolCallId }: ToolInvocationRecord,
  calls: readonly ToolCall[],
): ToolCall | undefined {
  return calls.find((call) => call.toolCallId === toolCallId);
}
