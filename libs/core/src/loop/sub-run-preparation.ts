import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import {
  type Finding,
  type Message,
  TOOL_EFFECTS,
  type ToolEffect,
  type ToolSpec,
} from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { isGlob, isToolPredicate, matchesGlob, selectsClass } from '../catalog/tool-selection.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Limits } from '../contracts/limits.js';
import { SUB_RUN, type SubRun, type ToolSelector } from '../contracts/loop-request.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import type { SubRunCall } from '../execution/call.js';
import { RESULT_READER } from '../execution/run-tools.js';
import { NONE_DECLARED } from '../injection/declared-tools.js';
import { resumedTools } from '../injection/saved-tools.js';
import { listedWithin, type ListedTools, remindStrategies } from '../injection/starting-toolset.js';
import { isPermitted } from '../policy/policy-engine.js';
import { revisionOf } from '../policy/rules.js';
import type { EnclosingRun, EveryRunOption, RunPlace, RunPlan } from './run-plan.js';
import { LoopSettings } from './loop-settings.js';
import type { ResumedRun } from './saved-run.js';
import { stopConditionsOf } from './loop-settings.js';

/** The run around a sub-run, and the tools it has when it makes the call. */
export interface OuterRun {
  readonly live: EnclosingRun;
  readonly toolset: Toolset;
}

interface Selected {
  readonly isKeptOut: (spec: ToolSpec) => boolean;
}

/**
 * The tools that a sub-run may use, no matter which strategy adds them: in a sub-run the list holds
 * for injected tools too.
 */
export class SubRunTools {
  private named = new WeakMap<Selection, ReadonlySet<string>>();
  private version = 0;
  private known: ReadonlySet<string> | undefined;

  constructor(private readonly catalog: ToolCatalog) {}

  /** A predicate, as `exclude` takes one. */
  keptOut(selection: Selection, strongest: ToolEffect): (spec: ToolSpec) => boolean {
    return (spec) =>
      spec.declaredId !== RESULT_READER.spec.declaredId &&
      !(rankOf(spec.effect) <= rankOf(strongest) && this.isNamed(selection, spec));
  }

  /**
   * The tool with the strongest effect that its own tools have, where it does not say one itself.
   */
  withEffect(tool: Tool): Tool {
    if (!tool.subRun) return tool;
    return {
      ...tool,
      spec: Object.freeze({ ...tool.spec, effect: this.strongestOf(tool, tool.subRun, new Set()) }),
    };
  }

  /** Sub-runs within sub-runs may name each other in a circle. */
  private strongestOf({ spec }: Tool, subRun: SubRun, seen: Set<string>): ToolEffect {
    if (subRun.effect || seen.has(spec.id)) return subRun.effect ?? 'read_only';
    seen.add(spec.id);
    const ids = this.idsIn(subRun);
    const ranks = this.catalog.subjects().flatMap(({ declaredId, effect }) => {
      const inner = this.catalog.find(declaredId);
      return ids.has(declaredId)
        ? [rankOf(inner?.subRun ? this.strongestOf(inner, inner.subRun, seen) : effect)]
        : [];
    });
    return TOOL_EFFECTS[Math.max(0, ...ranks)] ?? 'external_side_effect';
  }

  private isNamed(selection: Selection, spec: ToolSpec): boolean {
    if (this.version !== this.catalog.version) {
      this.version = this.catalog.version;
      this.named = new WeakMap();
      this.known = undefined;
    }
    if (this.idsIn(selection).has(spec.declaredId)) return true;
    this.known ??= new Set(this.catalog.subjects().map(({ declaredId }) => declaredId));
    if (this.known.has(spec.declaredId)) return false;
    // Of a tool that joins during runs, all that is known is its spec.
    const isBy = (selector: ToolSelector): boolean => namesSpec(selector, spec);
    return selection.tools.some(isBy) && !(selection.exclude ?? []).some(isBy);
  }

  /** Declared ids, of entity tools too. */
  private idsIn(selection: Selection): ReadonlySet<string> {
    const known = this.named.get(selection);
    if (known) return known;
    const ids = new Set([
      ...this.catalog.build(selection).map(({ spec }) => spec.declaredId),
      ...this.entityIdsIn(selection),
    ]);
    this.named.set(selection, ids);
    return ids;
  }

  private entityIdsIn({ tools, exclude = [] }: Selection): readonly string[] {
    return this.catalog.entities.definitions.flatMap((definition) =>
      definition.tools.flatMap(({ template: { spec } }) => {
        const isBy = (selector: ToolSelector): boolean =>
          namesSpec(selector, spec) || selectsClass(selector, definition);
        return tools.some(isBy) && !exclude.some(isBy) ? [spec.declaredId] : [];
      }),
    );
  }
}

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
      meter: outer.meter.ofSubRun(call.tool.declaredId),
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

type Selection = Pick<SubRun, 'tools' | 'exclude'>;

function namesSpec(selector: ToolSelector, spec: ToolSpec): boolean {
  if (typeof selector === 'string')
    return (
      selector === spec.declaredId || (isGlob(selector) && matchesGlob(selector, spec.declaredId))
    );
  return isToolPredicate(selector) && selector(spec);
}

function rankOf(effect: ToolEffect): number {
  return TOOL_EFFECTS.indexOf(effect);
}
