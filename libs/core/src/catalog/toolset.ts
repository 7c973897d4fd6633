import type { ToolSpec } from '@toolloop/protocol';
import type { RemovalCause } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import {
  declaredIdIn,
  declaredIdOfMember,
  instanceKey,
  instanceKeyOf,
} from '../plugins/entities/member-ids.js';
import { isSameCause } from './removal-cause.js';
import {
  newestRemovals,
  type Removal,
  removalKeysOf,
  type SavedRemovals,
} from './tool-removals.js';
import { isNamed } from './tool-selection.js';

/**
 * The tools of one step. Immutable, and append-only in order: a tool that stays keeps its place and
 * its spec object, so that a provider's prompt cache stays valid and a wire need not encode it
 * again. Beside the tools that the model sees it holds those of entities that are called over a
 * surface.
 */
export class Toolset {
  /** The specs of the tools that the model sees. */
  readonly specs: readonly ToolSpec[];
  private foundHidden: ReadonlyMap<string, Tool> | undefined;
  private foundReachable: readonly ToolSpec[] | undefined;
  private countedInjected: InjectedCount | undefined;

  private constructor(
    private readonly contents: Contents,
    specs?: readonly ToolSpec[],
  ) {
    this.specs = specs ?? [...contents.shown.values()].map(({ spec }) => spec);
  }

  static of(tools: readonly Tool[], behindSurfaces: readonly Tool[] = []): Toolset {
    const contents = {
      shown: new Map<string, Tool>(),
      instances: new Map<string, readonly Tool[]>(),
      removals: new Map<string, Removal>(),
    };
    return new Toolset({ ...contents, withheld: [], injected: new Set() }).add(
      tools,
      behindSurfaces,
    ).toolset;
  }

  /** Finds a tool that the model sees. */
  find(id: string): Tool | undefined {
    return this.contents.shown.get(id);
  }

  /** Finds a tool by its rendered id, whether the model sees it or calls it over a surface. */
  findCallable(id: string): Tool | undefined {
    return this.find(id) ?? this.hidden.get(id);
  }

  /** Finds the tool of one instance by the instance's real id. */
  member(declaredId: string, instanceId: string): Tool | undefined {
    return this.toolsOfInstance(instanceKey(declaredId, instanceId)).find(
      ({ spec }) => spec.declaredId === declaredId,
    );
  }

  /** Returns all tools of an instance, by its key. */
  toolsOfInstance(key: string): readonly Tool[] {
    return this.contents.instances.get(key) ?? [];
  }

  /** The specs of all tools that were ever injected, each once, including removed ones. */
  get injected(): readonly ToolSpec[] {
    return [...this.contents.injected];
  }

  /** The number of {@link injected}. */
  get injectedCount(): number {
    return this.contents.injected.size;
  }

  /** Returns the same toolset with other specs as the injected ones. */
  withInjected(specs: readonly ToolSpec[]): Toolset {
    return new Toolset({ ...this.contents, injected: new Set(specs) }, this.specs);
  }

  /**
   * The number of injected tools that the model sees, without surfaces: those of entities, and
   * others.
   */
  get injectedNow(): InjectedCount {
    this.countedInjected ??= this.countInjected();
    return this.countedInjected;
  }

  private countInjected(): InjectedCount {
    let [ofEntities, others] = [0, 0];
    for (const spec of this.contents.injected) {
      const tool = this.find(spec.id);
      if (tool?.spec !== spec || tool.surface) continue;
      if (tool.entity) ofEntities += 1;
      else others += 1;
    }
    return { ofEntities, others };
  }

  /** The number of entity instances. */
  get instanceCount(): number {
    return this.contents.instances.size;
  }

  /**
   * Returns the real ids of the instances that have a tool, in the order in which they were added.
   */
  instanceIds(declaredId: string): readonly string[] {
    const ofMethod = [...this.contents.instances.values()].flatMap(
      (tools) => tools.find(({ spec }) => spec.declaredId === declaredId) ?? [],
    );
    return ofMethod.flatMap(({ entity }) => entity?.instanceId ?? []);
  }

  /** The tools that the model sees. */
  get shown(): readonly Tool[] {
    return [...this.contents.shown.values()];
  }

  /** The tools that are called over a surface. */
  get behindSurfaces(): readonly Tool[] {
    return [...this.hidden.values()];
  }

  /**
   * All tools that the model may call: those it sees, and after them those it calls over a surface.
   */
  get tools(): readonly Tool[] {
    return [...this.shown, ...this.behindSurfaces];
  }

  /** The specs of {@link tools}. */
  get reachable(): readonly ToolSpec[] {
    this.foundReachable ??=
      this.hidden.size === 0 ? this.specs : this.tools.map(({ spec }) => spec);
    return this.foundReachable;
  }

  /**
   * Finds the cause of a tool's removal by its rendered id or, for an instance's tool, its member
   * key; undefined when it was never removed, or too long ago.
   */
  removalOf(id: string): RemovalCause | undefined {
    return this.contents.removals.get(id)?.cause;
  }

  /** The removals of the run and their causes; JSON. */
  get removals(): SavedRemovals {
    return [...this.contents.removals].map(([key, { cause }]) => [key, cause]);
  }

  /** The tools that were removed with a role and are not back yet. */
  get removedWithRole(): readonly Tool[] {
    return [...this.contents.removals.values()].flatMap(
      ({ removedWithRole }) => removedWithRole ?? [],
    );
  }

  /**
   * Returns the same toolset, which no longer adds these tools with their role; a call of one still
   * reports the cause of its removal.
   */
  withoutSuspended(tools: readonly Tool[]): Toolset {
    if (tools.length === 0) return this;
    const removals = new Map(this.contents.removals);
    for (const { spec } of tools) {
      const { cause } = removals.get(spec.id) ?? {};
      if (cause) removals.set(spec.id, { cause });
    }
    return new Toolset({ ...this.contents, removals }, this.specs);
  }

  /**
   * Restores the state of another process: the tools of `order` first, the removals so far, and the
   * tools removed with a role that this process still has.
   */
  resumed(
    order: readonly string[],
    gone: SavedRemovals,
    removedWithRole: readonly Tool[] = [],
  ): Toolset {
    const known = order.flatMap((id) => this.find(id) ?? []);
    const shown = new Map([...known, ...this.shown].map((tool) => [tool.spec.id, tool]));
    const here = new Set(this.tools.flatMap(removalKeysOf));
    const kept = new Map(removedWithRole.map((tool) => [tool.spec.id, tool]));
    const before = gone
      .filter(([key]) => !here.has(key))
      .map(([key, cause]): [string, Removal] => [key, removalOf(cause, kept.get(key))]);
    return new Toolset({
      ...this.contents,
      shown,
      removals: newestRemovals([...before, ...this.contents.removals]),
    });
  }

  /**
   * Adds tools at the end, and others that are called over a surface. A tool whose id exists
   * already keeps its spec and its place and gets the new instance.
   */
  add(tools: readonly Tool[], behindSurfaces: readonly Tool[] = []): ToolsetChange {
    if (tools.length + behindSurfaces.length === 0) return { toolset: this, added: [] };
    const { shown, instances, removals } = this.contents;
    const draft = {
      shown: new Map(shown),
      instances: new Map(instances),
      removals: new Map(removals),
    };
    const added: ToolSpec[] = [];
    for (const tool of tools) {
      const next = place(tool, draft);
      if (!draft.shown.has(next.spec.id)) added.push(next.spec);
      draft.shown.set(next.spec.id, next);
    }
    for (const tool of behindSurfaces) {
      const next = place(tool, draft);
      if (draft.shown.has(tool.spec.id)) draft.shown.set(tool.spec.id, next);
    }
    const specs = added.length > 0 ? [...this.specs, ...added] : this.specs;
    return { toolset: new Toolset({ ...this.contents, ...draft }, specs), added };
  }

  /**
   * Returns the same tools with other labels, of which the model is told nothing: each keeps its
   * place and its bytes.
   */
  relabelled(label: (tool: Tool) => Tool): Toolset {
    const changed = this.shown.filter((tool) => label(tool) !== tool);
    if (changed.length === 0) return this;
    const shown = new Map(this.shown.map((tool) => [tool.spec.id, label(tool)]));
    const specs = new Map(changed.map((tool) => [tool.spec, label(tool).spec]));
    return new Toolset({
      ...this.contents,
      shown,
      injected: new Set(this.injected.map((spec) => specs.get(spec) ?? spec)),
    });
  }

  /** Adds tools in the course of a run, and records them as injected. */
  inject(tools: readonly Tool[], behindSurfaces: readonly Tool[] = []): ToolsetChange {
    const { toolset, added } = this.add(tools, behindSurfaces);
    return {
      toolset: added.length === 0 ? toolset : toolset.withInjected([...this.injected, ...added]),
      added,
    };
  }

  /**
   * Returns a toolset with only some of the tools, both shown ones and those behind surfaces. None
   * of the others counts as removed.
   */
  filter(isLeft: (tool: Tool) => boolean, { offered, reuse }: ToolsetFilter = {}): Toolset {
    const left = this.shown
      .filter(isLeft)
      .map((tool) => (offered ? offering(tool, offered) : tool));
    if (left.every((tool) => this.find(tool.spec.id) === tool) && this.tools.every(isLeft))
      return this;
    const specs = left.map(({ spec }) => spec);
    const shown = new Map(left.map((tool) => [tool.spec.id, tool]));
    return new Toolset(
      { ...this.contents, shown, instances: filtered(this.contents.instances, isLeft) },
      reuse ? reuse(specs) : specs,
    );
  }

  /**
   * Removes tools, and with a surface the tools that are called over it. A call of one reports the
   * cause to the model.
   */
  remove(
    tools: readonly Tool[],
    cause: RemovalCause | ((tool: Tool) => RemovalCause),
  ): ToolsetRemoval {
    if (tools.length === 0) return { toolset: this, removed: [] };
    const closed = new Set(tools.flatMap(({ surface }) => [...(surface?.offers ?? [])]));
    const behind =
      closed.size === 0
        ? []
        : this.behindSurfaces.filter(({ spec }) => closed.has(spec.declaredId));
    const gone = new Map([...tools, ...behind].map((tool) => [tool.spec.id, tool]));
    const shown = new Map(this.contents.shown);
    for (const id of gone.keys()) shown.delete(id);
    const made = [...gone.values()].flatMap((tool) =>
      removalsOf(tool, typeof cause === 'function' ? cause(tool) : cause),
    );
    const removals = newestRemovals([...this.contents.removals, ...made]);
    const instances = filtered(this.contents.instances, ({ spec }) => !gone.has(spec.id));
    // A removal behind a surface does not change what the model sees: the same array stays.
    const specs = shown.size === this.contents.shown.size ? this.specs : undefined;
    return {
      toolset: new Toolset({ ...this.contents, shown, instances, removals }, specs),
      removed: [...gone.keys()],
    };
  }

  /** Tells whether a tool that is not in the toolset is withheld. */
  withholds(spec: Pick<ToolSpec, 'id' | 'declaredId'>): boolean {
    return !this.findCallable(spec.id) && isAnyOf(spec, this.contents.withheld);
  }

  /** The names of the withheld tools; JSON. */
  get withheld(): readonly string[] {
    return this.contents.withheld;
  }

  /**
   * Removes tools by names or globs, and withholds them from now on. The cause replaces the one of
   * tools that were removed before.
   */
  withhold(
    names: readonly string[],
    cause: RemovalCause,
    isStaying: (id: string) => boolean = () => false,
  ): ToolsetRemoval {
    const { withheld } = this.contents;
    const going = this.tools.filter(({ spec }) => isAnyOf(spec, names) && !isStaying(spec.id));
    const before = [...this.contents.removals].filter(
      ([key, known]) => !isSameCause(known.cause, cause) && isAnyOf(namesIn(key), names),
    );
    const isNew = names.some((name) => !withheld.includes(name));
    if (going.length + before.length === 0 && !isNew) return { toolset: this, removed: [] };
    const { toolset, removed } = this.remove(going, cause);
    const again = before.map(([key]): [string, Removal] => [key, { cause }]);
    const contents = {
      ...toolset.contents,
      removals: newestRemovals([...toolset.contents.removals, ...again]),
      withheld: [...new Set([...withheld, ...names])],
    };
    return { toolset: new Toolset(contents, toolset.specs), removed };
  }

  /** Returns the same tools for a sub-run, which withholds the same tools as its outer run. */
  withholdingAs({ withheld }: Pick<Toolset, 'withheld'>): Toolset {
    return new Toolset({ ...this.contents, withheld }, this.specs);
  }

  private get hidden(): ReadonlyMap<string, Tool> {
    this.foundHidden ??= hiddenIn(this.contents);
    return this.foundHidden;
  }
}

/** A toolset with tools added. */
export interface ToolsetChange {
  readonly toolset: Toolset;
  /**
   * The specs that are new to the model; for a tool that was there already only its instance was
   * refreshed.
   */
  readonly added: readonly ToolSpec[];
}

/** A toolset with tools removed. */
export interface ToolsetRemoval {
  readonly toolset: Toolset;
  /** The rendered ids of the removed tools. */
  readonly removed: readonly string[];
}

/** The options of {@link Toolset.filter}. */
export interface ToolsetFilter {
  /** The declared ids of the tools that surfaces still offer. @default all that they offered */
  readonly offered?: ReadonlySet<string>;
  /**
   * Returns an earlier array equal to the remaining specs, so that a wire need not encode them
   * again. @default the new array
   */
  readonly reuse?: (specs: readonly ToolSpec[]) => readonly ToolSpec[];
}

interface Contents {
  /** The tools that the model sees, by id. */
  readonly shown: ReadonlyMap<string, Tool>;
  /**
   * The tools of every entity instance in the toolset, shown or called over a surface, by instance.
   */
  readonly instances: ReadonlyMap<string, readonly Tool[]>;
  readonly removals: ReadonlyMap<string, Removal>;
  /** The declared ids, short names or globs of the tools that are withheld. */
  readonly withheld: readonly string[];
  /** The specs of all tools that were ever injected. */
  readonly injected: ReadonlySet<ToolSpec>;
}

/** The number of injected tools by where they came from. */
interface InjectedCount {
  readonly ofEntities: number;
  readonly others: number;
}

/** The mutable contents of the next toolset. */
interface Draft {
  readonly shown: Map<string, Tool>;
  readonly instances: Map<string, readonly Tool[]>;
  readonly removals: Map<string, Removal>;
}

function isAnyOf(spec: Pick<ToolSpec, 'id' | 'declaredId'>, names: readonly string[]): boolean {
  return names.some((name) => isNamed(spec, name));
}

/** Reads the names of a removed tool from its key. */
function namesIn(key: string): Pick<ToolSpec, 'id' | 'declaredId'> {
  return { id: key, declaredId: declaredIdOfMember(key) ?? declaredIdIn(key) };
}

function hiddenIn({ shown, instances }: Contents): ReadonlyMap<string, Tool> {
  const hidden = new Map<string, Tool>();
  for (const tools of instances.values())
    for (const tool of tools) if (!shown.has(tool.spec.id)) hidden.set(tool.spec.id, tool);
  return hidden;
}

/**
 * Returns the new instance under the old spec, so that place and bytes stay, and so does the depth
 * at which it was first found.
 */
function refreshed(known: Tool | undefined, tool: Tool): Tool {
  return known
    ? { ...tool, spec: known.spec, ...(known.entity && { entity: known.entity }) }
    : tool;
}

/** Returns a surface over which only these tools can be called. */
function offering(tool: Tool, offered: ReadonlySet<string>): Tool {
  const { surface } = tool;
  const offers = offersOf(tool).filter((declaredId) => offered.has(declaredId));
  return !surface || offers.length === surface.offers.size
    ? tool
    : { ...tool, surface: { ...surface, offers: new Set(offers) } };
}

export function offersOf({ surface }: Tool): readonly string[] {
  return [...(surface?.offers ?? [])];
}

/**
 * Puts a tool in its old place, or beside the other tools of its instance, and forgets its removal.
 */
function place(tool: Tool, { shown, instances, removals }: Draft): Tool {
  const { id } = tool.spec;
  if (removals.size > 0) for (const key of removalKeysOf(tool)) removals.delete(key);
  if (!tool.entity) return refreshed(shown.get(id), tool);
  const key = instanceKeyOf(tool);
  const beside = instances.get(key) ?? [];
  const index = beside.findIndex(({ spec }) => spec.id === id);
  const next = refreshed(beside[index], tool);
  instances.set(key, index < 0 ? [...beside, next] : beside.with(index, next));
  return next;
}

function filtered(
  instances: Contents['instances'],
  isLeft: (tool: Tool) => boolean,
): Contents['instances'] {
  const left = new Map<string, readonly Tool[]>();
  for (const [key, tools] of instances) {
    const staying = tools.every(isLeft) ? tools : tools.filter(isLeft);
    if (staying.length > 0) left.set(key, staying);
  }
  return left;
}

/** Makes a removal, with the tool itself if it comes back with a role. */
function removalOf(cause: RemovalCause, tool: Tool | undefined): Removal {
  return tool && cause.kind === 'role' ? { cause, removedWithRole: tool } : { cause };
}

function removalsOf(tool: Tool, cause: RemovalCause): readonly (readonly [string, Removal])[] {
  return removalKeysOf(tool).map((key) => [
    key,
    removalOf(cause, key === tool.spec.id ? tool : undefined),
  ]);
}
