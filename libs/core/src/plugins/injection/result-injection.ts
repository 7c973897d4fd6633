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
import { withinTime } from '../../contracts/interruption.js';
import type { ToolOutcome } from '../../call/outcome.js';
import { Logger } from '../../findings/logger.js';
import { type AppliedInjection, applyInjection, roomIn } from './apply-injection.js';
import type { ShownResult } from '../entities/entity-extraction.js';
import { triggersMatchedBy, triggersOf } from '../strategies/triggers.js';
import type { LiveRun } from '../../run/live-run.js';
import type { LoopSettings } from '../../run/loop-settings.js';

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

  /** The tools of the run after these results, in their order, strategy by strategy. */
  async inject(
    outcomes: readonly ToolOutcome[],
    calls: readonly ToolCall[],
    context: InjectionContext,
  ): Promise<Toolset> {
    const { live, step } = context;
    let { toolset } = context;
    for (const outcome of outcomes) {
      const called = asCalled(outcome, calls);
      for (const strategy of live.plan.injection.strategies) {
        const applied = await this.applied(strategy, called, context, toolset);
        toolset = applied.toolset;
        for (const event of applied.events) await live.emit(event);
      }
    }
    return live.withReader(toolset, step);
  }

  /**
   * A strategy that fails, is silent for the time of a tool's call, or hands over what cannot be
   * applied, changes nothing.
   */
  private async applied(
    strategy: ToolInjectionStrategy,
    called: CalledOutcome,
    context: InjectionContext,
    toolset: Toolset,
  ): Promise<AppliedInjection> {
    const { live, step } = context;
    try {
      const proposed = await this.proposed(strategy, called, context, toolset);
      if (isNothing(proposed)) return { toolset, events: NONE };
      const admitted = this.settings.admit(proposed);
      if (admitted.roles) live.roles.assume(admitted.roles);
      return await applyInjection(toolset, admitted, live.injectionRules(), { step, strategy });
    } catch (error) {
      if (live.signal.aborted) return { toolset, events: NONE };
      const { runId } = live.plan.execution.run;
      this.logger.error(`The injection strategy ${strategy.name} failed (run ${runId}).`, error);
      const message = `The injection strategy ${strategy.name} failed.`;
      return { toolset, events: [{ type: 'warning', step, code: 'injection_failed', message }] };
    }
  }

  private async proposed(
    strategy: ToolInjectionStrategy,
    called: CalledOutcome,
    { live, step, history }: InjectionContext,
    toolset: Toolset,
  ): Promise<ToolInjection> {
    const { execution, injection } = live.plan;
    const { tool } = called.outcome;
    if (!tool || strategy.concerns?.(shownResult(called.outcome, tool)) === false) return NOTHING;
    const last = lastResult(
      called,
      tool,
      triggersOf(strategy, injection.strategies, called.outcome.matchedTriggers),
    );
    const { run, limits } = execution;
    const withheld = live.reserve.of(strategy);
    const { handles } = live;
    const found = strategy.evaluate({
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
    const isKnown = !(isRecord(found) && 'then' in found); // a timer for each would be felt
    return isKnown ? found : withinTime(Promise.resolve(found), limits.toolCallMs, live.signal);
  }
}

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
