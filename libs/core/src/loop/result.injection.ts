import { Injectable, Logger } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import { withinTime } from '../execution/interruption.js';
import { applyInjection, roomIn, type AppliedInjection, type InjectionPlace } from '../injection/injection.applier.js';
import { noticedBy, noticedIn } from '../injection/noticed-results.js';
import type { ShownResult } from '../injection/tool-provider.extractor.js';
import type { Message, ToolCall } from '../protocol/message.js';
import type { InjectionResult, ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { LiveRun } from './live.run.js';
import { LoopSettings } from './loop.settings.js';
import type { RunTools } from './result-offer.js';

/** Where the results stand. */
interface InjectionStep {
  readonly step: number;
  readonly toolset: Toolset;
  /** The transcript up to and including the answer that made the calls. */
  readonly history: readonly Message[];
  readonly injected: readonly ToolSpec[];
  readonly live: LiveRun;
}

/** What became of a call, and what the model called. */
interface CalledOutcome extends ToolOutcome {
  readonly calledAs: string | undefined;
}

/** Lets strategies look at the results of a step, and applies what they want. */
@Injectable()
export class ResultInjection {
  private readonly logger = new Logger(ResultInjection.name);

  constructor(private readonly settings: LoopSettings) {}

  /** With what strategies notice in what a tool really returned: asked at once, since the step may end in a process that does not have it any more. */
  noticed(outcome: ToolOutcome, { plan }: LiveRun): ToolOutcome {
    const { strategies } = plan.injection;
    if (!outcome.tool || outcome.live === undefined) return outcome;
    const noticed = noticedIn(strategies, { record: outcome.record, live: outcome.live });
    return noticed.length === 0 ? outcome : { ...outcome, noticed };
  }

  /** The tools of the run after these results, in their order, strategy by strategy. */
  async inject(outcomes: readonly ToolOutcome[], calls: readonly ToolCall[], context: InjectionStep): Promise<RunTools> {
    const { live } = context;
    let { toolset, injected } = context;
    for (const outcome of outcomes) {
      const called = { ...outcome, calledAs: callOf(outcome.record, calls)?.name };
      for (const strategy of live.plan.injection.strategies) {
        const applied = await this.applied(strategy, called, { ...context, toolset, injected });
        toolset = applied.toolset;
        injected = applied.added.length > 0 ? [...injected, ...applied.added] : injected;
        for (const event of applied.events) await live.emit(event);
      }
    }
    return live.withReader({ toolset, injected }, context.step);
  }

  /** A strategy that fails, is silent for the time of a tool's call, or hands over what cannot be applied, changes nothing. */
  private async applied(strategy: ToolInjectionStrategy, outcome: CalledOutcome, context: InjectionStep): Promise<AppliedInjection> {
    const { live, step, history, toolset, injected } = context;
    const { execution, injection, strictListing } = live.plan;
    const { tool } = outcome;
    if (!tool) return { toolset, added: [], events: [] };
    try {
      const last = lastResult(outcome, tool, noticedBy(strategy, injection.strategies, outcome.noticed));
      const { run, limits } = execution;
      const withheld = live.reserve.of(strategy);
      const { others: room } = roomIn(toolset, injected, limits);
      const { reachable } = toolset;
      const found = strategy.evaluate({ run, history, toolset: reachable, last, step, limits, handles: live.handles, withheld, room });
      const proposed = this.settings.admit(await withinTime(Promise.resolve(found), limits.toolCallMs, live.signal));
      if (proposed.roles) live.roles.assume(proposed.roles);
      const { exclude, entities } = injection;
      const rules = { ...execution, ...live.roles.now(), exclude, entities, instances: live.instances, strictListing, signal: live.signal };
      return await applyInjection(toolset, proposed, rules, placeOf(strategy, { step, injected }));
    } catch (error) {
      if (live.signal.aborted) return { toolset, added: [], events: [] };
      this.logger.error(`The injection strategy ${strategy.name} failed (run ${execution.run.runId}).`, error);
      const message = `The injection strategy ${strategy.name} failed.`;
      return { toolset, added: [], events: [{ type: 'warning', step, code: 'injection_failed', message }] };
    }
  }
}

function placeOf({ name, yields = false }: ToolInjectionStrategy, at: Pick<InjectionPlace, 'step' | 'injected'>): InjectionPlace {
  return { ...at, strategy: name, yields };
}

/** What a strategy is shown of a result. */
function lastResult(outcome: CalledOutcome, tool: Tool, noticed: readonly string[] | undefined): InjectionResult {
  const { record, calledAs } = outcome;
  const more = { ...(calledAs !== undefined && { calledAs }), ...(noticed && { noticed }) };
  return { record, depth: tool.entity?.depth ?? 0, ...shownResult(outcome, tool), ...more };
}

export function shownResult({ live, entities }: ToolOutcome, { spec: tool, output: { declared } }: Tool): ShownResult {
  return { tool, live, ...(live === undefined && entities && { entities }), ...(declared && { returns: declared }) };
}

/** The call of which it is the record, as the model made it. */
export function callOf({ toolCallId }: ToolInvocationRecord, calls: readonly ToolCall[]): ToolCall | undefined {
  return calls.find((call) => call.toolCallId === toolCallId);
}
