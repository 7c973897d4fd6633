import { Injectable } from '@nestjs/common';
import { isClassOrBelow } from '../discovery/provider-classes.js';
import type { EntityRegistry } from '../discovery/entity.registry.js';
import { InvalidRequestError, type Finding } from '../protocol/errors.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { PolicySubject } from '../protocol/policy.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import { closestTo } from './suggestion.js';
import { isGlob, matchesGlob } from './glob.js';
import { isToolPredicate, selects, shortNameOf, type CatalogEntry } from './tool.selection.js';

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

/** All tools of the application by id, fixed at bootstrap. Collisions never get this far: they are findings. */
@Injectable()
export class ToolCatalog {
  private entries: ReadonlyMap<string, CatalogEntry> | undefined;
  private registry: EntityRegistry | undefined;

  /** Fills the catalog, once; answers with the ids that two tools share. */
  load(entries: readonly CatalogEntry[], entities: EntityRegistry): readonly Finding[] {
    const byId = new Map<string, CatalogEntry>();
    const findings: Finding[] = [];
    for (const entry of entries) {
      const { declaredId } = entry.tool.spec;
      const taken = byId.get(declaredId);
      if (taken)
        findings.push({
          at: entry.at,
          problem: `Its id "${declaredId}" is that of ${taken.at} too.`,
          remedy: 'Give one another name or namespace, or provide its class in one module only.',
        });
      findings.push(...prefixFindings(entry, entities));
      byId.set(declaredId, entry);
    }
    this.entries = byId;
    this.registry = entities;
    return findings;
  }

  /** The tools that are there from the start, in the order of declaration. */
  list(): readonly ToolSpec[] {
    return [...this.filled().values()].map(({ tool }) => tool.spec);
  }

  /** The entity classes, whose tools appear when a tool returns an instance. */
  get entities(): EntityRegistry {
    if (!this.registry) throw notReady();
    return this.registry;
  }

  /** What policy may be asked about: every declared id, entity tools included. */
  subjects(): readonly PolicySubject[] {
    const own = [...this.filled().values()].map(({ tool: { spec, origin } }) => ({
      declaredId: spec.declaredId,
      effect: spec.effect,
      origin,
    }));
    const entities = this.entities.definitions.flatMap(({ tools }) =>
      tools.map(({ template: { spec } }) => ({
        declaredId: spec.declaredId,
        effect: spec.effect,
        origin: { source: 'discovery', trusted: true },
      })),
    );
    return [...own, ...entities];
  }

  find(declaredId: string): Tool | undefined {
    return this.filled().get(declaredId)?.tool;
  }

  /** A tool by its declared id or by a short name that only one tool has. Throws `InvalidRequestError` with the closest names. */
  resolve(name: string): Tool {
    const exact = this.find(name);
    if (exact) return exact;
    const short = [...this.filled().values()].filter(({ tool }) => shortNameOf(tool.spec.declaredId) === name);
    if (short.length === 1 && short[0]) return short[0].tool;
    if (short.length > 1)
      throw new InvalidRequestError(
        'unknown_tool',
        `"${name}" is short for ${short.map(({ tool }) => tool.spec.id).join(' and ')}; use the whole id.`,
      );
    throw this.unknown(name);
  }

  /** The tools a selection names, in the order of the catalog. Throws `InvalidRequestError` for a name that names nothing. */
  build({ tools, exclude = [] }: ToolSelection): readonly Tool[] {
    for (const selector of [...(tools ?? []), ...exclude]) this.check(selector);
    return [...this.filled().values()]
      .filter((entry) => tools === undefined || tools.some((selector) => selects(selector, entry)))
      .filter((entry) => !exclude.some((selector) => selects(selector, entry)))
      .map(({ tool }) => tool);
  }

  /** The declared ids closest to a wrong one, at most three. */
  suggest(name: string): string[] {
    return closestTo(name, this.declaredIds());
  }

  /** All about one tool, service or entity, by its declared id. Throws `InvalidRequestError` with the closest names. */
  describe(declaredId: string): ToolDescription {
    const template = this.entities.definitions
      .flatMap(({ tools }) => tools)
      .find((tool) => tool.template.spec.declaredId === declaredId)?.template;
    if (template) return { ...template.spec, source: 'discovery', trusted: true, perInstance: true };
    const { spec, origin } = this.resolve(declaredId);
    return { ...spec, ...origin, perInstance: false };
  }

  /** A selector that names nothing is a mistake: of `exclude` it would let through what was to stay out. */
  private check(selector: ToolSelector): void {
    if (typeof selector === 'string') {
      const known = this.declaredIds();
      if (selector === '*' || known.includes(selector)) return;
      if (!isGlob(selector)) this.resolve(selector);
      else if (!known.some((id) => matchesGlob(selector, id))) throw this.unknown(selector);
      return;
    }
    if (isToolPredicate(selector)) return;
    const types = [...[...this.filled().values()].map(({ type }) => type), ...this.entities.definitions.map(({ type }) => type)];
    if (types.some((type) => isClassOrBelow(type, selector))) return;
    throw new InvalidRequestError(
      'unknown_tool',
      `No tool is of the class ${selector.name}. Is it a @ToolProvider(), and in the providers of a module?`,
    );
  }

  private declaredIds(): string[] {
    return this.subjects().map(({ declaredId }) => declaredId);
  }

  private unknown(name: string): InvalidRequestError {
    const closest = this.suggest(name);
    const hint = closest.length > 0 ? `Did you mean ${closest.map((id) => `"${id}"`).join(' or ')}?` : 'The catalog lists what there is.';
    return new InvalidRequestError('unknown_tool', `No tool is named "${name}". ${hint}`);
  }

  private filled(): ReadonlyMap<string, CatalogEntry> {
    if (!this.entries) throw notReady();
    return this.entries;
  }
}

/** A glob over an entity's tools, such as `order_*_*`, would match `order_desk__cancel` as well and allow what nobody meant. */
function prefixFindings({ tool, at }: CatalogEntry, { definitions }: EntityRegistry): Finding[] {
  const { declaredId } = tool.spec;
  const taken = definitions.find(({ prefix }) => declaredId.startsWith(`${prefix}_`) && !declaredId.startsWith(`${prefix}__`));
  if (!taken) return [];
  return [
    {
      at,
      problem: `Its id "${declaredId}" begins like those of the entity ${taken.type.name}, whose prefix is "${taken.prefix}": a policy for one would match the other.`,
      remedy: 'Give one another name: @ToolProvider({ namespace }) or @ToolProvider({ prefix }).',
    },
  ];
}

function notReady(): Error {
  return new Error('The tool catalog is filled when the application has started: call app.init() or app.listen() first.');
}
