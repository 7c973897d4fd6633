import { Injectable } from '@nestjs/common';
import type { Finding, ToolOrigin, ToolSpec } from '@toolloop/protocol';
import type { ToolSelector } from '../contracts/loop-request.js';
import type { PolicyTool } from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import type { EntityRegistry } from '../discovery/entity-registry.js';
import { isClassOrBelow } from '../discovery/provider-instances.js';
import type { ToolTemplate } from '../discovery/tool-template.js';
import { notReady, type Problem, ToolRegistry, unknownTool } from './tool-registry.js';
import { type CatalogEntry, declaredIdIn, DISPATCHER_ID, groupedId, isGlob, isToolPredicate, selects } from './tool-selection.js';

/** Which of the catalog's tools to take. */
export interface ToolSelection {
  /** @default all */
  readonly tools?: readonly ToolSelector[];
  readonly exclude?: readonly ToolSelector[];
}

/** Everything about a tool that a person may want to read; JSON. */
export interface ToolDescription extends ToolSpec {
  readonly source: string;
  readonly trusted: boolean;
  /** Whether the tool exists only once an entity was returned. */
  readonly perInstance: boolean;
}

interface Filling {
  readonly entries: ReadonlyMap<string, CatalogEntry>;
  readonly entities: EntityRegistry;
  origins?: ReadonlyMap<string, ToolOrigin>;
}

/** Entities are classes of the application. */
const ENTITY_ORIGIN: ToolOrigin = { source: 'discovery', trusted: true };

/** All tools of the application by id, fixed at bootstrap. Collisions never get this far: they are findings. */
@Injectable()
export class ToolCatalog {
  private filling: Filling | undefined;

  /** `registry` knows the tools by name, and takes those that providers register while the application starts. */
  constructor(readonly registry: ToolRegistry) {}

  /** Ids of tools that are no part of it, and that may join runs all the same. */
  announced: readonly string[] = [];

  /** Fills the catalog, once; answers with the ids that two tools share. */
  load(tools: readonly CatalogEntry[], entities: EntityRegistry): readonly Finding[] {
    const entries = new Map<string, CatalogEntry>();
    const findings: Finding[] = [];
    for (const entry of tools) {
      const { declaredId } = entry.tool.spec;
      const taken = entries.get(declaredId);
      if (taken)
        findings.push({
          at: entry.at,
          problem: `Its id "${declaredId}" is also the id of ${taken.at}.`,
          remedy: 'Give one of them another name or namespace, or provide its class in one module only.',
        });
      findings.push(...prefixFindings(entry, entities), ...surfaceFindings(entry, entities));
      entries.set(declaredId, entry);
    }
    this.filling = { entries, entities };
    this.registry.load(
      entries,
      entityTemplates(entities).map(({ spec }) => spec.declaredId),
    );
    return findings;
  }

  /** The tools that are there from the start, in the order of declaration. */
  list(): readonly ToolSpec[] {
    return this.all().map(({ tool }) => tool.spec);
  }

  /** The entity classes, whose tools appear when a tool returns an instance. */
  get entities(): EntityRegistry {
    return this.filled.entities;
  }

  /** What policy may be asked about: every declared id, of entity tools and of those that appear in the course of a run too. */
  subjects(): readonly PolicyTool[] {
    const own = [...this.filled.entries.values()].map(({ tool: { spec, origin } }) => policyTool(spec, origin));
    const entities = entityTemplates(this.entities).map(({ spec }) => policyTool(spec, ENTITY_ORIGIN));
    return [...own, ...entities];
  }

  /** Where the tool of an id comes from, declared ids of entity tools included; undefined where there is none. */
  originOf(id: string): ToolOrigin | undefined {
    this.filled.origins ??= new Map(this.subjects().map(({ declaredId, origin }) => [declaredId, origin]));
    return this.filled.origins.get(id);
  }

  find(declaredId: string): Tool | undefined {
    return this.filled.entries.get(declaredId)?.tool;
  }

  /** What policy is asked about an entity's tool, whatever instance it is of. */
  entityTool(declaredId: string): Pick<Tool, 'spec' | 'origin'> | undefined {
    const template = entityTemplates(this.entities).find(({ spec }) => spec.declaredId === declaredId);
    return template && { spec: template.spec, origin: ENTITY_ORIGIN };
  }

  /** A tool by its declared id or by a short name that only one tool has. Throws `InvalidRequestError` with the closest names. */
  resolve(name: string): Tool {
    return this.registry.resolve(name);
  }

  /** The tools that every selection names, in the order of the catalog. Throws `InvalidRequestError` for a name that names nothing. */
  build(...selections: readonly ToolSelection[]): readonly Tool[] {
    const [problem] = selections.flatMap((selection) => this.problemsWith(selection));
    if (problem) throw unknownTool(problem);
    return this.all()
      .filter((entry) => selections.every((selection) => this.isSelected(entry, selection)))
      .map(({ tool }) => tool);
  }

  /** What is wrong with a selection. A selector that names nothing is a mistake: of `exclude` it would let through what was to stay out. */
  problemsWith({ tools = [], exclude = [] }: ToolSelection): readonly Problem[] {
    const given: readonly unknown[] = [tools, exclude];
    if (!given.every((list) => Array.isArray(list))) return [NO_LIST];
    return [...tools, ...exclude].flatMap((selector) => this.problemWith(selector) ?? []);
  }

  /** The same for names by which a record of a call may go: the ids of instances' tools too, whatever instances there are. */
  problemsWithCalled(names: readonly string[]): readonly Problem[] {
    return names.flatMap((name) => (this.isOfInstance(name) ? [] : (this.problemWith(name) ?? [])));
  }

  /** Whether it is the id that a tool of some instance has in a run. */
  isOfInstance(id: string): boolean {
    const ids = entityTemplates(this.entities).map(({ spec }) => spec.declaredId);
    return ids.includes(declaredIdIn(id));
  }

  /** The declared ids closest to a wrong one, at most three. */
  suggest(name: string): string[] {
    return this.registry.suggest(name);
  }

  /** All about one tool, service or entity, by its declared id. Throws `InvalidRequestError` with the closest names. */
  describe(declaredId: string): ToolDescription {
    const template = entityTemplates(this.entities).find(({ spec }) => spec.declaredId === declaredId);
    if (template) return { ...template.spec, ...ENTITY_ORIGIN, perInstance: true };
    const { spec, origin } = this.resolve(declaredId);
    return { ...spec, ...origin, perInstance: false };
  }

  private isSelected(entry: CatalogEntry, { tools, exclude = [] }: ToolSelection): boolean {
    const isNamedBy = (selector: ToolSelector): boolean =>
      typeof selector === 'string' && !isGlob(selector) ? this.registry.entryOf(selector) === entry : selects(selector, entry);
    return (tools === undefined || tools.some(isNamedBy)) && !exclude.some(isNamedBy);
  }

  private problemWith(selector: ToolSelector): Problem | undefined {
    if (typeof selector === 'string' && this.announced.includes(selector)) return undefined;
    if (typeof selector === 'string') return this.registry.isKnown(selector) ? undefined : this.registry.problemWith(selector);
    if (typeof selector !== 'function') return NO_SELECTOR;
    if (isToolPredicate(selector)) return undefined;
    const types = [...this.all().map(({ type }) => type), ...this.entities.definitions.map(({ type }) => type)];
    if (types.some((type) => isClassOrBelow(type, selector))) return undefined;
    return {
      problem: `There is no tool of the class ${selector.name}.`,
      remedy: 'Mark it @ToolProvider(), and list it in the providers of a module.',
    };
  }

  private all(): readonly CatalogEntry[] {
    return [...this.filled.entries.values()].filter(({ isLatent }) => !isLatent);
  }

  private get filled(): Filling {
    if (!this.filling) throw notReady();
    return this.filling;
  }
}

const NO_LIST: Problem = { problem: 'The tools are not a list.', remedy: "Give one: ['crm__*']." };
const NO_SELECTOR: Problem = { problem: 'A selector is neither a name, a class nor a predicate.', remedy: 'Give one of them.' };

function entityTemplates({ definitions }: EntityRegistry): readonly ToolTemplate[] {
  return definitions.flatMap(({ tools }) => tools.map(({ template }) => template));
}

/** A glob over an entity's tools, such as `order_*_*`, would match `order_desk__cancel` as well and allow what nobody meant. */
function prefixFindings({ tool, at }: CatalogEntry, { definitions }: EntityRegistry): Finding[] {
  const { declaredId } = tool.spec;
  const taken = definitions.find(({ prefix }) => declaredId.startsWith(`${prefix}_`) && !declaredId.startsWith(`${prefix}__`));
  if (!taken) return [];
  return [
    {
      at,
      problem: `Its id "${declaredId}" begins like the tool ids of the entity ${taken.type.name}, whose prefix is "${taken.prefix}": a policy for one would match the other.`,
      remedy: 'Give one of them another name: @ToolProvider({ namespace }) or @ToolProvider({ prefix }).',
    },
  ];
}

/** A run may offer the tools of entities under ids of ours. */
function surfaceFindings({ tool, at }: CatalogEntry, entities: EntityRegistry): Finding[] {
  const { declaredId } = tool.spec;
  const templates = entityTemplates(entities);
  const stands = templates.find(({ spec }) => groupedId(spec.declaredId) === declaredId)?.spec.declaredId;
  const isDispatcher = templates.length > 0 && declaredId === DISPATCHER_ID;
  if (stands === undefined && !isDispatcher) return [];
  const whose =
    stands === undefined ? 'the tool over which tools of entities are called' : `${stands} where it is offered for all instances`;
  return [{ at, problem: `Its id "${declaredId}" is already the id of ${whose}.`, remedy: 'Give it another name.' }];
}

function policyTool({ declaredId, effect, labels, inputSchema }: ToolSpec, origin: ToolOrigin): PolicyTool {
  return { declaredId, effect, labels, inputSchema, origin };
}
