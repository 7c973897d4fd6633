import { selects } from '../catalog/tool.selection.js';
import type { Toolset } from '../catalog/toolset.js';
import { callable } from '../execution/tool-permission.js';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { Limits } from '../protocol/limits.js';
import type { PolicyActor, PolicyEngine } from '../protocol/policy.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { ToolInjection } from '../protocol/tool-injection.js';

/** What injected tools obey. */
export interface InjectionRules {
  readonly run: RunContext;
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  readonly exclude: readonly ToolSelector[];
  readonly limits: Limits;
  /** Whether a tool's own `canCall` is asked before the tool is added. */
  readonly strictListing: boolean;
  readonly signal: AbortSignal;
}

/** What an injection changed, as a new toolset and the events that tell of it. */
export interface AppliedInjection {
  readonly toolset: Toolset;
  readonly added: readonly ToolSpec[];
  readonly events: readonly LoopEventBody[];
}

/** Where in a run an injection is applied, and what was injected before. */
export interface InjectionPlace {
  readonly step: number;
  readonly strategy: string;
  readonly injected: readonly ToolSpec[];
}

/**
 * Applies what a strategy wants, under the run's policy, exclusions and cap. Strategies propose; only this changes a toolset. Rejects with the
 * interruption of a run that ends meanwhile.
 */
export async function applyInjection(
  toolset: Toolset,
  injection: ToolInjection,
  rules: InjectionRules,
  place: InjectionPlace,
): Promise<AppliedInjection> {
  if (!rules.strictListing) return applyPermitted(toolset, injection, rules, place);
  const permitted = (injection.add ?? []).filter((tool) => isPermitted(tool, rules));
  return applyPermitted(toolset, { ...injection, add: await callable(permitted, rules) }, rules, place);
}

/** Applies it without asking any `canCall`, for what is listed strictly as a whole afterwards. */
export function applyPermitted(
  toolset: Toolset,
  injection: ToolInjection,
  rules: Omit<InjectionRules, 'strictListing' | 'signal'>,
  { step, strategy, injected: before }: InjectionPlace,
): AppliedInjection {
  const warnings = (injection.warnings ?? []).map(({ code, message }): LoopEventBody => ({ type: 'warning', step, code, message }));
  const removal = toolset.without(
    injection.remove ?? [],
    injection.howToGetBack ?? `It was removed by ${strategy}; call the tool that gave it again.`,
  );
  const permitted = (injection.add ?? []).filter((tool) => isPermitted(tool, rules));
  const room = roomIn(removal.toolset, before, rules.limits);
  const { tools, injected, leftOut } = chooseGroups(groupByInstance(permitted), removal.toolset, room);
  const { toolset: changed, added } = removal.toolset.with(tools);
  const events: LoopEventBody[] = [...warnings];
  if (removal.removed.length > 0) events.push({ type: 'tools-removed', step, tools: removal.removed, reason: strategy });
  for (const group of injected) events.push(injectedEvent(group, step, strategy));
  const [first, ...others] = leftOut;
  if (first) events.push(capWarning(first, others.length, step, rules.limits.injectedTools));
  return { toolset: changed, added, events };
}

/** How many tools can still be injected: those that went again do not count. */
export function roomIn(toolset: Toolset, injected: readonly ToolSpec[], { injectedTools }: Pick<Limits, 'injectedTools'>): number {
  return injectedTools - injected.filter((spec) => toolset.find(spec.id)?.spec === spec).length;
}

/** What of the proposed tools goes into the toolset. */
interface ChosenGroups {
  /** New tools, and newer instances of tools that are there. */
  readonly tools: readonly Tool[];
  /** Of each group that brings something new, the new tools. */
  readonly injected: readonly (readonly Tool[])[];
  readonly leftOut: readonly (readonly Tool[])[];
}

/** Decides group by group, as if each were added before the next: so many are added in one change, as every change copies the toolset. */
function chooseGroups(groups: Iterable<readonly Tool[]>, toolset: Toolset, room: number): ChosenGroups {
  const [tools, injected, leftOut]: [Tool[], (readonly Tool[])[], (readonly Tool[])[]] = [[], [], []];
  const coming = new Map<string, Tool>();
  for (const group of groups) {
    const free = group.filter((tool) => !isTaken(tool, coming.get(tool.spec.id) ?? toolset.find(tool.spec.id)));
    const fresh = newOf(free, (id) => coming.has(id) || toolset.find(id) !== undefined);
    if (fresh.length > 0 && coming.size + fresh.length > room) {
      leftOut.push(group);
      continue;
    }
    tools.push(...free);
    for (const tool of fresh) coming.set(tool.spec.id, tool);
    if (fresh.length > 0) injected.push(fresh);
  }
  return { tools, injected, leftOut };
}

/** The tools that are not known yet, the first of each id. */
function newOf(tools: readonly Tool[], isKnown: (id: string) => boolean): readonly Tool[] {
  const fresh = new Map<string, Tool>();
  for (const tool of tools) if (!fresh.has(tool.spec.id) && !isKnown(tool.spec.id)) fresh.set(tool.spec.id, tool);
  return [...fresh.values()];
}

/** The tools of an entity come or stay away together; those without an entity each stand alone. */
function groupByInstance(tools: readonly Tool[]): Iterable<Tool[]> {
  const groups = new Map<string, Tool[]>();
  for (const tool of tools) {
    const key = tool.entity
      ? `${tool.entity.provider} ${tool.entity.instanceId}`
      : `${tool.origin.source} ${tool.spec.id} ${tool.spec.declaredId}`;
    const group = groups.get(key);
    if (group) group.push(tool);
    else groups.set(key, [tool]);
  }
  return groups.values();
}

function isPermitted(tool: Tool, { run, actor, policies, exclude }: Omit<InjectionRules, 'strictListing' | 'signal'>): boolean {
  if (decide(policies, subjectOf(tool, actor)).kind === 'deny') return false;
  if (exclude.some((selector) => selects(selector, { tool }))) return false;
  return tool.when?.(run) ?? true;
}

/** An id that stands for another declaration is never overwritten. */
function isTaken(tool: Tool, known: Tool | undefined): boolean {
  if (!known) return false;
  const isOfSameSource = known.origin.source === tool.origin.source && known.origin.trusted === tool.origin.trusted;
  return !isOfSameSource || known.spec.declaredId !== tool.spec.declaredId || known.entity?.instanceId !== tool.entity?.instanceId;
}

function injectedEvent(group: readonly Tool[], step: number, strategy: string): LoopEventBody {
  const entity = group[0]?.entity;
  const tools = group.map(({ spec }) => spec.id);
  return { type: 'tools-injected', step, provider: entity?.provider ?? strategy, ...(entity && { instanceId: entity.instanceId }), tools };
}

/** One for all that was left out: a long list must not flood the events. */
function capWarning(group: readonly Tool[], others: number, step: number, most: number): LoopEventBody {
  const entity = group[0]?.entity;
  const first = entity ? `${entity.provider} ${JSON.stringify(entity.instanceId)}` : (group[0]?.spec.id ?? 'a tool');
  const whose = others === 0 ? first : `${first} and of ${others} more`;
  return {
    type: 'warning',
    step,
    code: 'injection_cap',
    message: `The tools of ${whose} were not added: a run holds at most ${most} injected tools. Raise limits.injectedTools, or return fewer at a time.`,
  };
}
