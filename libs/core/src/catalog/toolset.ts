import type { ToolSpec } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import {
  declaredIdIn,
  declaredIdOfMember,
  groupedId,
  instanceKey,
  instanceKeyOf,
  isNamed,
  memberKey,
  memberKeyOf,
} from './tool-selection.js';

/** What a change of the toolset came to. */
export interface ToolsetChange {
  readonly toolset: Toolset;
  /** Specs that are new to the model; a tool already there only had its instance refreshed. */
  readonly added: readonly ToolSpec[];
}

/** What a removal came to. */
export interface ToolsetRemoval {
  readonly toolset: Toolset;
  readonly removed: readonly string[];
}

interface Contents {
  /** What the model is shown, by id. */
  readonly shown: ReadonlyMap<string, Tool>;
  /** The tools of every entity instance that is there, shown or called over a surface, by instance. */
  readonly instances: ReadonlyMap<string, readonly Tool[]>;
  readonly removals: ReadonlyMap<string, string>;
  /** Declared ids, short names or globs. */
  readonly keptAway: readonly string[];
}

/** Contents on their way to the next toolset. */
interface Draft {
  readonly shown: Map<string, Tool>;
  readonly instances: Map<string, readonly Tool[]>;
  readonly removals: Map<string, string>;
}

/**
 * The tools of one step. Immutable, and append-only in order: what stays keeps its place and its very spec object, so that a provider's prompt cache
 * stays warm and a wire need not encode it again. Beside the tools that the model is shown it holds those of entities that are called over a surface.
 */
export class Toolset {
  /** What the model is shown. */
  readonly specs: readonly ToolSpec[];
  private foundHidden: ReadonlyMap<string, Tool> | undefined;
  private foundReachable: readonly ToolSpec[] | undefined;

  private constructor(
    private readonly contents: Contents,
    specs?: readonly ToolSpec[],
  ) {
    this.specs = specs ?? [...contents.shown.values()].map(({ spec }) => spec);
  }

  static of(tools: readonly Tool[]): Toolset {
    const contents = { shown: new Map<string, Tool>(), instances: new Map<string, readonly Tool[]>(), removals: new Map<string, string>() };
    return new Toolset({ ...contents, keptAway: [] }).with(tools).toolset;
  }

  /** A tool that the model is shown. */
  find(id: string): Tool | undefined {
    return this.contents.shown.get(id);
  }

  /** A tool by its rendered id, whether the model is shown it or calls it over a surface. */
  held(id: string): Tool | undefined {
    return this.find(id) ?? this.hidden.get(id);
  }

  /** The tool of one instance, by its real id. */
  member(declaredId: string, instanceId: string): Tool | undefined {
    return this.contents.instances.get(instanceKey(declaredId, instanceId))?.find(({ spec }) => spec.declaredId === declaredId);
  }

  /** All tools of an instance, by its key. */
  toolsOfInstance(key: string): readonly Tool[] {
    return this.contents.instances.get(key) ?? [];
  }

  /** How many entity instances there are. */
  get instanceCount(): number {
    return this.contents.instances.size;
  }

  /** Whether tools of entities are called over others. */
  get hasSurfaces(): boolean {
    return this.specs.some(({ id }) => this.find(id)?.surface);
  }

  /** The real ids of the instances that have a tool, in the order in which they came. */
  instanceIds(declaredId: string): readonly string[] {
    const ofMethod = [...this.contents.instances.values()].flatMap(
      (tools) => tools.find(({ spec }) => spec.declaredId === declaredId) ?? [],
    );
    return ofMethod.flatMap(({ entity }) => entity?.instanceId ?? []);
  }

  /** Everything the model may call: what it is shown, and behind it what it calls over a surface. */
  get reachable(): readonly ToolSpec[] {
    this.foundReachable ??= this.hidden.size === 0 ? this.specs : [...this.specs, ...[...this.hidden.values()].map(({ spec }) => spec)];
    return this.foundReachable;
  }

  /** The tools that are called over a surface. */
  get behindSurfaces(): readonly Tool[] {
    return [...this.hidden.values()];
  }

  /** How to get a removed tool back; undefined when it was never removed, or too long ago. */
  removalOf(id: string): string | undefined {
    return this.contents.removals.get(id);
  }

  /** The same for the tool of an instance, by its real id. */
  memberRemovalOf(declaredId: string, instanceId: string): string | undefined {
    return this.contents.removals.get(memberKey(declaredId, instanceId));
  }

  /** What was removed, and how to get each back; JSON. */
  get removals(): SavedTombstones {
    return [...this.contents.removals];
  }

  /** The same tools where another process left off: those of `order` first, and what is gone of them with how to get it back. */
  resumed(order: readonly string[], gone: SavedTombstones): Toolset {
    const known = order.flatMap((id) => this.find(id) ?? []);
    const shown = new Map([...known, ...this.contents.shown.values()].map((tool) => [tool.spec.id, tool]));
    const here = new Set(this.reachable.flatMap(({ id }) => keysOf(this.held(id))));
    const removals = newestTombstones([...gone.filter(([key]) => !here.has(key)), ...this.contents.removals]);
    return new Toolset({ ...this.contents, shown, removals });
  }

  /**
   * Adds tools at the end, and others that are called over a surface. A tool whose id is there already keeps its spec and its place and gets the new
   * instance, wherever it is.
   */
  with(tools: readonly Tool[], behindSurfaces: readonly Tool[] = []): ToolsetChange {
    if (tools.length + behindSurfaces.length === 0) return { toolset: this, added: [] };
    const { shown, instances, removals, keptAway } = this.contents;
    const draft = { shown: new Map(shown), instances: new Map(instances), removals: new Map(removals) };
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
    return { toolset: new Toolset({ ...draft, keptAway }, specs), added };
  }

  /**
   * The toolset with some of its tools alone: those of the specs, and behind surfaces those that are chosen; surfaces offer what is `offered`. The very array
   * is kept, so that whoever narrows alike twice can hand over the same.
   */
  only(specs: readonly ToolSpec[], isChosen: (tool: Tool) => boolean, offered?: ReadonlySet<string>): Toolset {
    const left = specs.flatMap(({ id }) => this.find(id) ?? []).map((tool) => (offered ? offering(tool, offered) : tool));
    const shown = new Map(left.map((tool) => [tool.spec.id, tool]));
    const isLeft = (tool: Tool): boolean => shown.get(tool.spec.id) === tool || (!this.contents.shown.has(tool.spec.id) && isChosen(tool));
    return new Toolset({ ...this.contents, shown, instances: filtered(this.contents.instances, isLeft) }, specs);
  }

  /** Takes tools away by their rendered ids and remembers how to get them back. Ids that are not there are ignored. */
  without(ids: readonly string[], howToGetBack: string): ToolsetRemoval {
    return this.withoutTools(
      ids.flatMap((id) => this.held(id) ?? []),
      () => howToGetBack,
    );
  }

  /** Takes tools away and remembers of each how to get it back; with a grouped tool go the tools that are called over it. */
  withoutTools(tools: readonly Tool[], howToGetBack: (tool: Tool) => string): ToolsetRemoval {
    if (tools.length === 0) return { toolset: this, removed: [] };
    const closed = new Set(tools.flatMap(({ surface }) => [...(surface?.offers ?? [])]));
    const behind = closed.size === 0 ? [] : this.behindSurfaces.filter(({ spec }) => closed.has(spec.declaredId));
    const gone = new Map([...tools, ...behind].map((tool) => [tool.spec.id, tool]));
    const shown = new Map(this.contents.shown);
    for (const id of gone.keys()) shown.delete(id);
    const tombstones = [...gone.values()].flatMap((tool) => keysOf(tool).map((key): [string, string] => [key, howToGetBack(tool)]));
    const removals = newestTombstones([...this.contents.removals, ...tombstones]);
    const instances = filtered(this.contents.instances, ({ spec }) => !gone.has(spec.id));
    // A removal behind a surface leaves the model shown what it was: the very array stays.
    const specs = shown.size === this.contents.shown.size ? this.specs : undefined;
    return { toolset: new Toolset({ ...this.contents, shown, instances, removals }, specs), removed: [...gone.keys()] };
  }

  /** Whether a tool is to stay away that is not there. */
  keepsAway(spec: Pick<ToolSpec, 'id' | 'declaredId'>): boolean {
    return !this.held(spec.id) && isAnyOf(spec, this.contents.keptAway);
  }

  /** The names of what stays away; JSON. */
  get keptAway(): readonly string[] {
    return this.contents.keptAway;
  }

  /** Takes tools away by names or globs, and remembers that they stay away. Of what went before for another reason the model is told that, too. */
  keepingAway(names: readonly string[], howToGetBack: string, isStaying: (id: string) => boolean = () => false): ToolsetRemoval {
    const { keptAway, removals } = this.contents;
    const going = this.reachable.filter((spec) => isAnyOf(spec, names) && !isStaying(spec.id));
    const before = [...removals].filter(([key, text]) => text !== howToGetBack && isAnyOf(namesIn(key), names));
    const isNew = names.some((name) => !keptAway.includes(name));
    if (going.length + before.length === 0 && !isNew) return { toolset: this, removed: [] };
    const { toolset, removed } = this.without(
      going.map(({ id }) => id),
      howToGetBack,
    );
    const told = before.map(([key]): [string, string] => [key, howToGetBack]);
    const contents = {
      ...toolset.contents,
      removals: newestTombstones([...toolset.removals, ...told]),
      keptAway: [...new Set([...keptAway, ...names])],
    };
    return { toolset: new Toolset(contents, toolset.specs), removed };
  }

  /** The same tools in a run within the run, which keeps away what that does. */
  keepingAwayAs({ keptAway }: Pick<Toolset, 'keptAway'>): Toolset {
    return new Toolset({ ...this.contents, keptAway }, this.specs);
  }

  private get hidden(): ReadonlyMap<string, Tool> {
    this.foundHidden ??= hiddenIn(this.contents);
    return this.foundHidden;
  }
}

function isAnyOf(spec: Pick<ToolSpec, 'id' | 'declaredId'>, names: readonly string[]): boolean {
  return names.some((name) => isNamed(spec, name));
}

/** Of what is gone there is no more than that. */
function namesIn(key: string): Pick<ToolSpec, 'id' | 'declaredId'> {
  return { id: key, declaredId: declaredIdOfMember(key) ?? declaredIdIn(key) };
}

function hiddenIn({ shown, instances }: Contents): ReadonlyMap<string, Tool> {
  const hidden = new Map<string, Tool>();
  for (const tools of instances.values()) for (const tool of tools) if (!shown.has(tool.spec.id)) hidden.set(tool.spec.id, tool);
  return hidden;
}

/** The new instance under the old name: spec, and with it the place and the bytes, stay, and so does the depth at which it was first found. */
function refreshed(known: Tool | undefined, tool: Tool): Tool {
  return known ? { ...tool, spec: known.spec, ...(known.entity && { entity: known.entity }) } : tool;
}

/** A surface over which nothing else is called. */
function offering(tool: Tool, offered: ReadonlySet<string>): Tool {
  const { surface } = tool;
  if (!surface) return tool;
  const offers = new Set([...surface.offers].filter((declaredId) => offered.has(declaredId)));
  return { ...tool, surface: { ...surface, offers } };
}

/** Puts a tool where it was, or where it belongs: an entity's beside the others of its instance. What is there again was never removed. */
function place(tool: Tool, { shown, instances, removals }: Draft): Tool {
  const { id } = tool.spec;
  if (removals.size > 0) for (const key of keysOf(tool)) removals.delete(key);
  if (!tool.entity) return refreshed(shown.get(id), tool);
  const key = instanceKeyOf(tool);
  const beside = instances.get(key) ?? [];
  const index = beside.findIndex(({ spec }) => spec.id === id);
  const next = refreshed(beside[index], tool);
  instances.set(key, index < 0 ? [...beside, next] : beside.with(index, next));
  return next;
}

function filtered(instances: Contents['instances'], isLeft: (tool: Tool) => boolean): Contents['instances'] {
  const left = new Map<string, readonly Tool[]>();
  for (const [key, tools] of instances) {
    const staying = tools.every(isLeft) ? tools : tools.filter(isLeft);
    if (staying.length > 0) left.set(key, staying);
  }
  return left;
}

/** Under its rendered id, and of an entity's tool under the instance as well, however it is called. */
function keysOf(tool: Tool | undefined): readonly string[] {
  if (!tool) return [];
  return tool.entity ? [tool.spec.id, memberKeyOf(tool, tool.entity)] : [tool.spec.id];
}

/** What was removed, and how to get it back; JSON, oldest first. */
export type SavedTombstones = readonly (readonly [string, string])[];

/** How it begins where a role went: the tool is there again as soon as the role is. */
export const LAID_DOWN = 'The actor of the run may not use it at present.';

/** A run remembers so many of instances; who asks for a tool that went before is told what is told of one that never was. */
const MOST_TOMBSTONES = 4_000;

/**
 * The newest of them; what was removed again is new. Of tools that are no entity's all stay: there are no more of them than are declared, and a run that
 * goes on elsewhere knows by them what was taken from it.
 */
export function newestTombstones(tombstones: SavedTombstones): ReadonlyMap<string, string> {
  const newest = new Map<string, string>();
  for (const [key, text] of tombstones) {
    newest.delete(key);
    newest.set(key, text);
  }
  if (newest.size <= MOST_TOMBSTONES) return newest;
  const ofInstances = keysOfInstances([...newest.keys()]);
  for (const key of ofInstances.slice(0, Math.max(0, ofInstances.length - MOST_TOMBSTONES))) newest.delete(key);
  return newest;
}

/** Each instance's tool is there twice: under the instance, and under a rendered id of the same method. */
function keysOfInstances(keys: readonly string[]): readonly string[] {
  const methods = new Set(keys.map(declaredIdOfMember));
  const isOfInstance = (key: string, declaredId: string): boolean => methods.has(declaredId) && key !== groupedId(declaredId);
  return keys.filter((key) => declaredIdOfMember(key) !== undefined || isOfInstance(key, declaredIdIn(key)));
}
