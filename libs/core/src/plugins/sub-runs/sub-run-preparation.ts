import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { Finding, Message, ToolSpec } from '@toolloop/protocol';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { Limits } from '../../contracts/limits.js';
import { SUB_RUN, type SubRun } from '../../contracts/loop-request.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { Tool } from '../../contracts/tool.js';
import { stopConditionsOf } from '../../loop/stop-conditions.js';
import { isPermitted } from '../../policy/decide.js';
import { revisionOf } from '../../policy/rules.js';
import { LoopSettings } from '../../run/loop-settings.js';
import type { EnclosingRun, EveryRunOption, RunPlace, RunPlan } from '../../run/run-plan.js';
import type { ResumedRun } from '../../run/saved-run.js';
import { NONE_DECLARED } from '../client-tools/declared-tools.js';
import { resumedTools } from '../injection/saved-tools.js';
import { type ListedTools, listedWithin, remindStrategies } from '../injection/starting-toolset.js';
import type { SubRunCall } from './sub-runs.js';
import { type OuterRun, SubRunTools } from './sub-run-tools.js';

/** Makes the plan of a sub-run out of that of the run around it. Nothing in it is wider. */
@Injectable()
export class SubRunPreparation {
  private readonly tools: SubRunTools;

  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
  ) {
    this.tools = new SubRunTools(catalog);
  }

  /** The tool with the strongest effect of those that it may use. */
  withEffect(tool: Tool): Tool {
    return this.tools.withEffect(tool);
  }

  /** Returns the findings in a tool whose call is a run; called once the catalog is filled. */
  findings({ spec, subRun }: Tool): Finding[] {
    if (!subRun) return [];
    const at = `sub-run ${spec.id}`;
    return [
      ...SUB_RUN.findings(subRun, at),
      ...this.settings.surroundingFindings(at, SUB_RUN.sound(subRun)),
    ];
  }

  /**
   * Throws `ConfigurationError` for a policy that is wrong, which is found when the application
   * starts.
   */
  prepare(call: SubRunCall, { live, toolset }: OuterRun, resumed: ResumedRun | undefined): RunPlan {
    const { plan: outer } = live;
    const { subRun } = call;
    const { policy, output, model, stopWhen } = subRun;
    const execution = this.executionOf(call, outer, resumed);
    const isKeptOut = this.tools.keptOut(subRun, subRun.effect ?? call.tool.effect);
    const around = { toolset, injection: { ...outer.injection, reserve: live.reserve } };
    const left = { isKeptOut, isLeft: (tool: Tool) => isLeft(tool, { ...execution, isKeptOut }) };
    const listed = listedWithin(around, left, { ...execution, strictListing: outer.strictListing });
    return {
      ...outer,
      relist: undefined,
      assumed: undefined,
      session: undefined,
      model: model === undefined ? outer.model : this.settings.modelFor(model),
      instructions: this.settings.instructionsFor(subRun.instructions, execution.run),
      within: placeOf(call, live),
      messages: [asked(call.prompt)],
      conversation: undefined,
      declared: NONE_DECLARED,
      toolset: resumed ? this.resumed(listed, live, execution, resumed) : listed.toolset,
      execution,
      listedUnder: revisionOf(execution.policies),
      isOneCall: false,
      narrowing: policy ? [policy] : [],
      injection: listed.injection,
      ...this.stepsOf(subRun, execution.run),
      stopWhen: stopConditionsOf(stopWhen),
      answer: output && { type: output, ...this.settings.answers.shapeOf(output) },
      options: optionsOf(outer, call),
    };
  }

  /** The tools that it had before it waited. */
  private resumed(
    { toolset, injection }: ListedTools,
    { handles }: EnclosingRun,
    { run, limits }: RunPlan['execution'],
    { saved, processState }: ResumedRun,
  ): Toolset {
    const { records } = saved.state;
    if (!processState)
      remindStrategies(injection, {
        run,
        toolset: toolset.specs,
        room: limits.injectedTools,
        records,
        shown: saved.tools.order,
      });
    return resumedTools(toolset, { saved: saved.tools, processState }, injection, {
      registry: this.catalog.entities,
      handles,
    });
  }

  /** Returns the execution options and limits of its calls: the same as outside, or less. */
  private executionOf(
    { subRun, scope, request, ms }: SubRunCall,
    outer: RunPlan,
    resumed: ResumedRun | undefined,
  ): RunPlan['execution'] {
    const { policy, limits } = subRun;
    const own = policy ? this.settings.policiesFor([policy]).slice(0, 1) : [];
    return {
      ...outer.execution,
      run: runWithin(outer.execution.run, resumed),
      policies: [...own, ...outer.execution.policies],
      limits: limitsBelow(outer.execution.limits, limits, ms),
      actor: scope.actor,
      callPath: [...(scope.callPath ?? []), request.step, request.index],
    };
  }

  /**
   * Returns the options of its steps. None of the request around it is taken over, since a sub-run
   * has a transcript of its own.
   */
  private stepsOf(
    { history = this.settings.options.history, prepareStep }: SubRun,
    run: RunContext,
  ): Pick<RunPlan, 'history' | 'prepareStep'> {
    return { history, prepareStep: prepareStep && ((step) => prepareStep({ ...step, run })) };
  }
}

interface Selected {
  readonly isKeptOut: (spec: ToolSpec) => boolean;
}

/** Returns the number of runs around a run. */
export function depthOf({ path }: Pick<RunContext, 'path'>): number {
  return path ? path.length - 1 : 0;
}

function placeOf({ request, scope, tool, args }: SubRunCall, live: EnclosingRun): RunPlace {
  const { call, step, mayHaveRun = false } = request;
  return {
    live,
    flow: scope.flow,
    toolCallId: call.toolCallId,
    args,
    tool: tool.id,
    step,
    mayHaveRun,
  };
}

/** Returns whether its list, the policies of both runs and the depth permit it a tool. */
function isLeft(tool: Tool, scope: RunPlan['execution'] & Selected): boolean {
  if (scope.isKeptOut(tool.spec) || (tool.subRun && depthOf(scope.run) >= scope.limits.subRunDepth))
    return false;
  return isPermitted(tool, scope);
}

function runWithin(outer: RunContext, resumed: ResumedRun | undefined): RunContext {
  const runId = resumed?.runId ?? randomUUID();
  return {
    ...outer,
    runId,
    path: [...(outer.path ?? [outer.runId]), runId],
    state: resumed?.processState?.state ?? new Map(outer.state),
  };
}

/** No limit is above that of the run around it. */
function limitsBelow(outer: Limits, own: Partial<Limits> = {}, runMs: number): Limits {
  const below: Record<string, number> = {};
  for (const [name, most] of Object.entries(own))
    below[name] = Math.min(most, valueOf(outer, name));
  return { ...outer, ...below, runMs };
}

function valueOf(limits: Limits, name: string): number {
  const value: unknown = Reflect.get(limits, name);
  return typeof value === 'number' ? value : Number.POSITIVE_INFINITY;
}

/** Labels text in a model's words, which carries no authority. */
function asked(prompt: string): Message {
  return { role: 'user', content: prompt, labels: { returns: 'untrusted', reads: 'public' } };
}

/**
 * Returns the options of a sub-run: some of the run around it, some of its own. It needs no labels,
 * since it has read what the run around it had read.
 */
function optionsOf({ options }: RunPlan, { subRun, signal }: SubRunCall): EveryRunOption {
  const { onToolError, onForbidden, approvals } = options;
  const { toolChoice, keepToolChoice, modelOptions } = subRun;
  const withinAnother = {
    labels: undefined,
    rehearse: undefined,
    whenBusy: undefined,
    cut: undefined,
  };
  return {
    ...withinAnother,
    onToolError,
    onForbidden,
    approvals,
    toolChoice,
    keepToolChoice,
    modelOptions,
    signal,
  };
}
