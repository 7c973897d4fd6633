import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { Toolset } from '../catalog/toolset.js';
import { withoutWrong } from '../findings/option-findings.js';
import { unknownOptions } from '../findings/unknown-options.js';
import type { SubRunCall } from '../execution/sub-runs.js';
import { remindStrategies } from '../injection/begun-toolset.js';
import { givenBefore, resumedTools } from '../injection/saved.tools.js';
import { isPermitted } from '../policy/is-permitted.js';
import type { Finding } from '../protocol/errors.js';
import type { Limits } from '../protocol/limits.js';
import type { Message } from '../protocol/message.js';
import type { SubRun } from '../protocol/sub-run.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { LiveRun, RunPlace } from './live.run.js';
import { SUB_RUN_OPTIONS } from './loop-option-names.js';
import { SUB_RUN_VALUES, shapeFindings } from './loop-option-values.js';
import { LoopSettings } from './loop.settings.js';
import type { RunPlan } from './run.plan.js';
import { stopConditionsOf } from './stop.condition.js';
import { StructuredAnswers, outputFindings } from './structured.answer.js';
import { SubRunTools } from './sub.run.tools.js';
import type { ResumedRun } from './suspended.runs.js';

/** The run around a sub-run, and the tools it has when it makes the call. */
export interface OuterRun {
  readonly live: LiveRun;
  readonly toolset: Toolset;
}

interface Selected {
  readonly isKeptOut: (spec: ToolSpec) => boolean;
}

type Permitted = RunPlan['execution'] & Selected & Pick<RunPlan, 'injection'>;

/** Makes the plan of a sub-run out of that of the run around it. Nothing in it is wider. */
@Injectable()
export class SubRunPreparation {
  constructor(
    private readonly settings: LoopSettings,
    private readonly tools: SubRunTools,
    private readonly answers: StructuredAnswers,
    private readonly catalog: ToolCatalog,
  ) {}

  /** The tool with the strongest effect of those that it may use. */
  withEffect(tool: Tool): Tool {
    return this.tools.withEffect(tool);
  }

  /** What is wrong with a tool whose call is a run; asked once the catalog is filled. */
  findings({ spec, subRun }: Tool): Finding[] {
    if (!subRun) return [];
    const at = `sub-run ${spec.id}`;
    const { prompt: _prompt, effect: _effect, summaryBytes: _bytes, output: _output, ...profile } = subRun;
    const { output } = withoutWrong(subRun, SUB_RUN_VALUES);
    return [
      ...unknownOptions(subRun, SUB_RUN_OPTIONS, at),
      ...shapeFindings(subRun, SUB_RUN_VALUES, at),
      ...(Reflect.get(subRun, 'tools') !== undefined ? [] : [{ at, ...WITHOUT_TOOLS }]),
      ...this.settings.profileFindings(at, profile),
      ...outputFindings(output, at),
    ];
  }

  /** Throws `ConfigurationError` for a policy that is wrong, which is found when the application starts. */
  prepare(call: SubRunCall, { live, toolset }: OuterRun, resumed: ResumedRun | undefined): RunPlan {
    const { plan: outer } = live;
    const { subRun } = call;
    const { policy, output, model, stopWhen } = subRun;
    const execution = this.executionOf(call, outer, resumed);
    const isKeptOut = this.tools.keptOut(subRun, subRun.effect ?? call.tool.effect);
    const exclude = [...outer.injection.exclude, isKeptOut];
    const entities = outer.injection.entities.within({ ...execution, exclude, strictListing: outer.strictListing });
    const reserve = live.reserve.within((tool) => isLeft(tool, { ...execution, isKeptOut }));
    const injection = { ...outer.injection, exclude, entities, reserve };
    return {
      ...outer,
      relist: undefined,
      assumed: undefined,
      model: model === undefined ? outer.model : this.settings.modelFor(model),
      instructions: this.settings.instructionsFor(subRun.instructions, execution.run),
      within: placeOf(call, live),
      messages: [asked(call.prompt)],
      conversation: undefined,
      toolset: this.toolsFor({ live, toolset }, { ...execution, isKeptOut, injection }, resumed),
      execution,
      narrowing: policy ? [policy] : [],
      injection,
      ...this.stepsOf(subRun, execution.run),
      stopWhen: stopConditionsOf(stopWhen),
      answer: output && { type: output, ...this.answers.shapeOf(output) },
      options: optionsOf(outer, call),
    };
  }

  /** What it starts with, and where it goes on what it had. */
  private toolsFor(outer: OuterRun, permitted: Permitted, resumed: ResumedRun | undefined): Toolset {
    const begun = this.toolsetFor(outer, permitted);
    if (!resumed) return begun;
    const { injection, run, limits } = permitted;
    const { exclude, entities: offer } = injection;
    const { saved, remains } = resumed;
    const { records } = saved.state;
    if (!remains) remindStrategies(injection, { run, toolset: begun.specs, room: limits.injectedTools, records, shown: saved.tools.order });
    const given = givenBefore(saved.tools, injection);
    const before = { saved: saved.tools, remains: remains?.injected ?? [], given, exclude, handles: outer.live.handles, offer };
    return resumedTools(begun, before, this.catalog.entities);
  }

  /** What it has of the run around it; tools of entities are called over what they were called over there. */
  private toolsetFor(outer: OuterRun, permitted: Permitted): Toolset {
    const { dispatcher } = permitted.injection.entities;
    const isItsToo = (tool: Tool): boolean => isLeft(tool, permitted);
    const behind = outer.toolset.behindSurfaces.filter(isItsToo);
    const shown = startingTools(outer.live, outer.toolset).filter(isItsToo);
    return Toolset.of(dispatcher ? [...shown, dispatcher] : shown)
      .with([], behind)
      .toolset.keepingAwayAs(outer.toolset);
  }

  /** For whom and under what its calls are made: the same, or less. */
  private executionOf({ subRun, scope, request, ms }: SubRunCall, outer: RunPlan, resumed: ResumedRun | undefined): RunPlan['execution'] {
    const { policy, limits } = subRun;
    const own = policy ? this.settings.policiesFor([policy]).slice(0, 1) : [];
    return {
      ...outer.execution,
      run: runWithin(outer.execution.run, resumed),
      policies: [...own, ...outer.execution.policies],
      limits: limitsBelow(outer.execution.limits, limits, ms),
      actor: scope.actor,
      place: [...(scope.place ?? []), request.step, request.index],
    };
  }

  /** Of the request around it nothing is taken over: that looks at a transcript of its own. */
  private stepsOf(
    { history = this.settings.options.history, prepareStep }: SubRun,
    run: RunContext,
  ): Pick<RunPlan, 'history' | 'prepareStep'> {
    return { history, prepareStep: prepareStep && ((step) => prepareStep({ ...step, run })) };
  }
}

const WITHOUT_TOOLS = {
  problem: 'It has no "tools".',
  remedy: "List the tools of the outer run that it may use: ['crm__*']; an empty list for none.",
} as const;

/** How many runs are around a run. */
export function depthOf({ path }: Pick<RunContext, 'path'>): number {
  return path ? path.length - 1 : 0;
}

function placeOf({ request, scope, tool, args }: SubRunCall, live: LiveRun): RunPlace {
  const { call, step, mayHaveRun = false } = request;
  return { live, flow: scope.flow, toolCallId: call.toolCallId, args, tool: tool.id, step, mayHaveRun };
}

/** Whether its list, the policies of both runs and the depth let it have a tool. */
function isLeft(tool: Tool, scope: RunPlan['execution'] & Selected): boolean {
  if (scope.isKeptOut(tool.spec) || (tool.subRun && depthOf(scope.run) >= scope.limits.subRunDepth)) return false;
  return isPermitted(tool, scope);
}

function runWithin(outer: RunContext, resumed: ResumedRun | undefined): RunContext {
  const runId = resumed?.runId ?? randomUUID();
  return { ...outer, runId, path: [...(outer.path ?? [outer.runId]), runId], state: resumed?.remains?.state ?? new Map(outer.state) };
}

/** No limit is above that of the run around it. */
function limitsBelow(outer: Limits, own: Partial<Limits> = {}, runMs: number): Limits {
  const below: Record<string, number> = {};
  for (const [name, most] of Object.entries(own)) below[name] = Math.min(most, valueOf(outer, name));
  return { ...outer, ...below, runMs };
}

function valueOf(limits: Limits, name: string): number {
  const value: unknown = Reflect.get(limits, name);
  return typeof value === 'number' ? value : Number.POSITIVE_INFINITY;
}

/** In a model's words, which are nobody's authority. */
function asked(prompt: string): Message {
  return { role: 'user', content: prompt, labels: { returns: 'untrusted', reads: 'public' } };
}

/**
 * What the run around it has, and what of a large catalog it could search for. What a strategy keeps back for another reason stays there, and what is bound to
 * that run alone.
 */
function startingTools({ plan, reserve }: LiveRun, toolset: Toolset): readonly Tool[] {
  const { strategies } = plan.injection;
  const there = toolset.specs.flatMap(({ id }) => toolset.find(id) ?? []);
  const searchable = strategies.filter(({ yields }) => yields === true).flatMap((strategy) => reserve.of(strategy).all);
  return [...new Set([...there, ...searchable])].filter((tool) => !isBound(tool) && !toolset.keepsAway(tool.spec));
}

/** To one run: another has its own. */
function isBound({ origin, surface }: Tool): boolean {
  return origin.source === 'toolloop' || surface?.kind === 'dispatcher';
}

function optionsOf({ options }: RunPlan, { subRun, signal }: SubRunCall): RunPlan['options'] {
  const { onToolError, onForbidden, approvals, hooks } = options;
  const { toolChoice, keepToolChoice, modelOptions } = subRun;
  return {
    ...(onToolError && { onToolError }),
    ...(onForbidden && { onForbidden }),
    ...(approvals && { approvals }),
    ...(hooks && { hooks }),
    ...(toolChoice !== undefined && { toolChoice }),
    ...(keepToolChoice !== undefined && { keepToolChoice }),
    ...(modelOptions && { modelOptions }),
    signal,
  };
}
