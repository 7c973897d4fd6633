import { Injectable } from '@nestjs/common';
import type { Finding, ToolOrigin, ToolPresentation, ToolSpec } from '@toolloop/protocol';
import { BehaviorSubject, type Observable, Subject } from 'rxjs';
import type { PolicyTool } from '../contracts/policy.js';
import type { ToolSelector } from '../contracts/tool-selector.js';
import type { Tool } from '../contracts/tool.js';
import type { EntityRegistry } from '../plugins/entities/entity-registry.js';
import { DISPATCHER_ID, declaredIdIn, groupedId } from '../plugins/entities/member-ids.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';
import { foldedId, sharedIdProblem, type TakenId } from '../tools/discovery/tool-names.js';
import type { ToolTemplate } from '../tools/discovery/tool-template.js';
import { AnnouncedTools } from './announced-tools.js';
import { isGlob } from './glob.js';
import { notReady, type Problem, ToolRegistry, unknownTool } from './tool-registry.js';
import {
  type CatalogEntry,
  isByClass,
  isNamed,
  isToolPredicate,
  selects,
} from './tool-selection.js';

/**
 * The catalog of all tools of the application by id. It is fixed when the application has started,
 * but for the tools of sources, which come and go. A collision at the start is a finding; a later
 * newcomer never gets in.
 */
@Injectable()
export class ToolCatalog {
  private filling: Filling | undefined;
  private readonly changes = new Subject<CatalogChange>();
  private readonly found = new BehaviorSubject<readonly Finding[]>([]);
  private readonly reports = new Map<string, readonly Finding[]>();
  /**
   * The versions in which tools joined after the start. Tools are known by their codecs, since
   * their specs change with their labels.
   */
  private readonly joined = new WeakMap<Tool['input'], number>();
  private current = 0;

  /**
   * @param registry finds the tools by name, and takes those that providers register while the
   *   application starts
   */
  constructor(readonly registry: ToolRegistry) {}

  /** Returns a tool as the policy in force labels it; every tool is told so. */
  label: (tool: Tool) => Tool = (tool) => tool;

  /** The names of tools that are not in the catalog and may still join it, or runs. */
  announced = new AnnouncedTools();

  /**
   * Tells of every tool of a source that comes or goes, once the catalog has changed. It never
   * ends.
   */
  readonly changes$: Observable<CatalogChange> = this.changes.asObservable();

  /**
   * The findings about what is not well and does not keep the application from running, such as a
   * tool of a source in quarantine, or a policy that names a tool which its source does not have.
   * It begins with those of now.
   *
   * @example
   * catalog.findings$.subscribe((findings) => health.set('tools', findings.length === 0));
   */
  readonly findings$: Observable<readonly Finding[]> = this.found.asObservable();

  /**
   * The codecs of tools that were in the catalog and are not any more, or have another definition
   * now.
   */
  readonly retired = new WeakSet<Tool['input']>();

  /** The number of changes since the application started. */
  get version(): number {
    return this.current;
  }

  /** The object that holds all tools: another one whenever they change. */
  get contents(): object {
    return this.filled;
  }

  /**
   * Replaces the findings about one thing; none if it is well again. Nothing is told where they are
   * the same.
   */
  report(about: string, findings: readonly Finding[]): void {
    if (canonicalDeclaration(this.reports.get(about) ?? []) === canonicalDeclaration(findings))
      return;
    if (findings.length === 0) this.reports.delete(about);
    else this.reports.set(about, findings);
    this.found.next([...this.reports.values()].flat());
  }

  /**
   * Fills the catalog; returns a finding for each id that two tools share, or that differs from
   * another's only in case.
   */
  load(tools: readonly CatalogEntry[], entities: EntityRegistry): readonly Finding[] {
    const entries = new Map<string, CatalogEntry>();
    const taken = new Map<string, TakenId>();
    const findings: Finding[] = [];
    for (const entry of tools) {
      findings.push(...collisions(entry, taken, entities));
      take(entry, taken);
      entries.set(entry.tool.spec.declaredId, entry);
    }
    this.refill({ entries, entities });
    return findings;
  }

  /** Replaces tools by others of the same ids, before the first run. */
  rewrite(change: (entry: CatalogEntry) => CatalogEntry): void {
    const { entries, entities } = this.filled;
    this.refill({
      entries: new Map([...entries].map(([id, entry]) => [id, change(entry)])),
      entities,
    });
  }

  /**
   * Removes tools of a source and adds others behind all that are there, but for those that collide
   * with another; returns these, each with its finding. Active runs lose the removed tools at once,
   * and have the others from their next step on.
   */
  update({ source, remove, add }: CatalogUpdate): ReadonlyMap<string, Finding> {
    const { entities, entries: before } = this.filled;
    const entries = new Map(before);
    for (const { spec } of remove) entries.delete(spec.declaredId);
    const taken = new Map<string, TakenId>();
    for (const entry of entries.values()) take(entry, taken);
    const collided = new Map<string, Finding>();
    for (const entry of add) {
      const { declaredId } = entry.tool.spec;
      const [finding] = collisions(entry, taken, entities);
      if (finding) collided.set(declaredId, finding);
      else {
        entries.set(declaredId, entry);
        take(entry, taken);
      }
    }
    const added = add.filter(({ tool }) => !collided.has(tool.spec.declaredId));
    if (remove.length + added.length === 0) return collided;
    this.current += 1;
    for (const { input } of remove) this.retired.add(input);
    for (const { tool } of added) this.joined.set(tool.input, this.current);
    this.refill({ entries, entities });
    this.changes.next({
      source,
      removed: remove.map(({ spec }) => spec.declaredId),
      added: added.map(({ tool }) => tool.spec.declaredId),
    });
    return collided;
  }

  /** Tells whether a tool joined the catalog after one of its versions. */
  hasJoinedSince({ input }: Pick<Tool, 'input'>, version: number): boolean {
    return (this.joined.get(input) ?? 0) > version;
  }

  /** Lists the tools that exist from the start, in the order of declaration. */
  list(): readonly ToolSpec[] {
    return this.all().map(({ tool }) => this.label(tool).spec);
  }

  /** The entity classes, whose tools appear when a tool returns an instance. */
  get entities(): EntityRegistry {
    return this.filled.entities;
  }

  /**
   * Returns everything that policy may decide about: every declared id, including those of entity
   * tools and of tools that appear in the course of a run.
   */
  subjects(): readonly PolicyTool[] {
    const tools = [...this.filled.entries.values()].map(({ tool }) => this.label(tool));
    const own = tools.map(({ spec, origin }) => policyTool(spec, origin));
    const entities = entityTemplates(this.entities).map(({ spec }) =>
      policyTool(spec, ENTITY_ORIGIN),
    );
    return [...own, ...entities];
  }

  /**
   * Finds the source of a tool by its declared id, also of an entity tool; undefined where there is
   * none.
   */
  originOf(id: string): ToolOrigin | undefined {
    this.filled.origins ??= new Map(
      this.subjects().map(({ declaredId, origin }) => [declaredId, origin]),
    );
    return this.filled.origins.get(id);
  }

  /** Tells whether an id differs only in case from that of a tool that has another id. */
  isLookalike(id: string): boolean {
    return (
      this.originOf(id) === undefined &&
      this.subjects().some(({ declaredId }) => foldedId(declaredId) === foldedId(id))
    );
  }

  find(declaredId: string): Tool | undefined {
    const entry = this.filled.entries.get(declaredId);
    return entry && this.label(entry.tool);
  }

  /** Finds an entity's tool by its declared id, as policy decides about it for every instance. */
  entityTool(declaredId: string): Pick<Tool, 'spec' | 'origin'> | undefined {
    const template = entityTemplates(this.entities).find(
      ({ spec }) => spec.declaredId === declaredId,
    );
    return template && { spec: template.spec, origin: ENTITY_ORIGIN };
  }

  /**
   * Finds a tool by its declared id or by a short name that only one tool has.
   *
   * @throws InvalidRequestError for an unknown or ambiguous name, with the closest ones
   */
  resolve(name: string): Tool {
    return this.label(this.registry.resolve(name));
  }

  /**
   * Returns the tools that all selections include, in the order of the catalog.
   *
   * @throws InvalidRequestError for a selector without a tool
   */
  build(...selections: readonly ToolSelection[]): readonly Tool[] {
    const [problem] = selections.flatMap((selection) => this.problemsWith(selection));
    if (problem) throw unknownTool(problem);
    return this.all()
      .filter((entry) => selections.every((selection) => this.isSelected(entry, selection)))
      .map(({ tool }) => this.label(tool));
  }

  /**
   * Finds the problems of a selection. A selector without a tool is a mistake: in `exclude` it
   * would let through a tool that was to stay out.
   */
  problemsWith({ tools = [], exclude = [] }: ToolSelection): readonly Problem[] {
    const given: readonly unknown[] = [tools, exclude];
    if (!given.every((list) => Array.isArray(list))) return [NO_LIST];
    return [...tools, ...exclude].flatMap((selector) => this.problemWith(selector) ?? []);
  }

  /**
   * Finds the problems of names in records of calls, which may also be the ids of instances' tools,
   * and have no short names but those that ids have.
   */
  problemsWithCalled(names: readonly string[]): readonly Problem[] {
    return names.flatMap((name) => {
      if (this.isOfInstance(name)) return [];
      const entry = isGlob(name) ? undefined : this.registry.entryOf(name);
      if (entry && !isNamed(entry.tool.spec, name))
        return [
          {
            problem: `"${name}" is a short name, which records of calls do not have.`,
            remedy: `Name "${entry.tool.spec.declaredId}".`,
          },
        ];
      return this.problemWith(name) ?? [];
    });
  }

  /** Tells whether an id can be that of an instance's tool in a run. */
  isOfInstance(id: string): boolean {
    return entityTemplates(this.entities).some(({ spec }) => spec.declaredId === declaredIdIn(id));
  }

  /** Suggests the declared ids closest to a wrong one, at most three. */
  suggest(name: string): string[] {
    return this.registry.suggest(name);
  }

  /**
   * Describes one tool of a service or an entity by its declared id.
   *
   * @throws InvalidRequestError for an unknown id, with the closest ones
   */
  describe(declaredId: string): ToolDescription {
    const template = entityTemplates(this.entities).find(
      ({ spec }) => spec.declaredId === declaredId,
    );
    if (template) return described(template, ENTITY_ORIGIN, true);
    const tool = this.resolve(declaredId);
    return described(tool, tool.origin, false);
  }

  private isSelected(entry: CatalogEntry, { tools, exclude = [] }: ToolSelection): boolean {
    const isNamedBy = (selector: ToolSelector): boolean =>
      typeof selector === 'string' && !isGlob(selector)
        ? this.registry.entryOf(selector) === entry
        : selects(selector, entry);
    return (tools === undefined || tools.some(isNamedBy)) && !exclude.some(isNamedBy);
  }

  private problemWith(selector: ToolSelector): Problem | undefined {
    if (typeof selector === 'string')
      return this.registry.isKnown(selector) || this.announced.has(selector)
        ? undefined
        : this.registry.problemWith(selector);
    if (typeof selector !== 'function') return NO_SELECTOR;
    if (isToolPredicate(selector)) return undefined;
    if (
      [...this.all(), ...this.entities.definitions].some((classes) => isByClass(selector, classes))
    )
      return undefined;
    return {
      problem: `There is no tool of the class ${selector.name}.`,
      remedy:
        'Mark it @ToolProvider() and list it in the providers of a module, or name a module that has such providers itself.',
    };
  }

  private refill(filling: Filling): void {
    this.filling = filling;
    this.registry.load(
      filling.entries,
      entityTemplates(filling.entities).map(({ spec }) => spec),
    );
  }

  private all(): readonly CatalogEntry[] {
    return [...this.filled.entries.values()].filter(({ isLatent }) => !isLatent);
  }

  private get filled(): Filling {
    if (!this.filling) throw notReady();
    return this.filling;
  }
}

/** The origin of the tools of entities, which are classes of the application. */
const ENTITY_ORIGIN: ToolOrigin = { source: 'discovery', trusted: true };

/** A selection of the catalog's tools. */
export interface ToolSelection {
  /** The tools to include. @default all */
  readonly tools?: readonly ToolSelector[];
  /** The tools to leave out, even if `tools` names them. @default none */
  readonly exclude?: readonly ToolSelector[];
}

/** A full description of a tool, for people; JSON. */
export interface ToolDescription extends ToolSpec {
  readonly source: string;
  readonly trusted: boolean;
  /** `true` if the tool exists only once an entity was returned. */
  readonly perInstance: boolean;
  readonly presentation?: ToolPresentation;
}

/** A change in the tools of a source. The catalog has changed by the time it is told. */
export interface CatalogChange {
  /** The name of the source. */
  readonly source: string;
  /**
   * The declared ids of the tools that came, behind all others. A tool with another definition is
   * among both.
   */
  readonly added: readonly string[];
  readonly removed: readonly string[];
}

/** Tools that leave the catalog and tools that join it, all of one source. */
export interface CatalogUpdate {
  readonly source: string;
  readonly remove: readonly Tool[];
  readonly add: readonly CatalogEntry[];
}

interface Filling {
  readonly entries: ReadonlyMap<string, CatalogEntry>;
  readonly entities: EntityRegistry;
  origins?: ReadonlyMap<string, ToolOrigin>;
}

function described(
  { spec, presentation }: Pick<Tool, 'spec' | 'presentation'>,
  origin: ToolOrigin,
  perInstance: boolean,
): ToolDescription {
  return { ...spec, ...origin, perInstance, ...(presentation && { presentation }) };
}

const NO_LIST: Problem = {
  problem: 'The tools are not a list.',
  remedy: "Pass a list, such as ['crm__*'].",
};
const NO_SELECTOR: Problem = {
  problem: 'A selector is neither a name, a class nor a predicate.',
  remedy: 'Pass one of them.',
};

function entityTemplates({ definitions }: EntityRegistry): readonly ToolTemplate[] {
  return definitions.flatMap(({ tools }) => tools.map(({ template }) => template));
}

function take({ tool: { spec }, at }: CatalogEntry, taken: Map<string, TakenId>): void {
  const id = foldedId(spec.declaredId);
  if (!taken.has(id)) taken.set(id, { declaredId: spec.declaredId, at });
}

function collisions(
  entry: CatalogEntry,
  taken: ReadonlyMap<string, TakenId>,
  entities: EntityRegistry,
): Finding[] {
  const { declaredId } = entry.tool.spec;
  const other = taken.get(foldedId(declaredId));
  const remedy =
    'Give one of them another name or namespace, or provide its class in one module only.';
  const shared = other
    ? [{ at: entry.at, problem: sharedIdProblem(declaredId, other), remedy }]
    : [];
  return [...shared, ...prefixFindings(entry, entities), ...surfaceFindings(entry, entities)];
}

/**
 * Finds ids that a glob over an entity's tools matches as well: `order_*_*` would match
 * `order_desk__cancel` and allow it by mistake.
 */
function prefixFindings({ tool, at }: CatalogEntry, { definitions }: EntityRegistry): Finding[] {
  const { declaredId } = tool.spec;
  const taken = definitions.find(
    ({ prefix }) => declaredId.startsWith(`${prefix}_`) && !declaredId.startsWith(`${prefix}__`),
  );
  if (!taken) return [];
  return [
    {
      at,
      problem: `Its id "${declaredId}" begins like the tool ids of the entity ${taken.type.name}, whose prefix is "${taken.prefix}": a policy for one would match the other.`,
      remedy:
        'Give one of them another name: @ToolProvider({ namespace }) or @ToolProvider({ prefix }).',
    },
  ];
}

/**
 * Finds ids that the surfaces of entities use: a run may offer the tools of entities under these.
 */
function surfaceFindings({ tool, at }: CatalogEntry, entities: EntityRegistry): Finding[] {
  const { declaredId } = tool.spec;
  const templates = entityTemplates(entities);
  const stands = templates.find(
    ({ spec }) => foldedId(groupedId(spec.declaredId)) === foldedId(declaredId),
  )?.spec.declaredId;
  const isDispatcher = templates.length > 0 && foldedId(declaredId) === DISPATCHER_ID;
  if (stands === undefined && !isDispatcher) return [];
  const whose =
    stands === undefined
      ? 'the tool over which tools of entities are called'
      : `${stands} where it is offered for all instances`;
  return [
    {
      at,
      problem: `Its id "${declaredId}" is already the id of ${whose}.`,
      remedy: 'Give it another name.',
    },
  ];
}

function policyTool(
  { declaredId, effect, labels, inputSchema }: ToolSpec,
  origin: ToolOrigin,
): PolicyTool {
  return { declaredId, effect, labels, inputSchema, origin };
}
