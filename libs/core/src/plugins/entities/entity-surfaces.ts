import {
  isJsonObject,
  type JsonValue,
  TOOL_EFFECTS,
  type ToolLabels,
  type ToolOrigin,
  type ToolSpec,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { selects } from '../../catalog/tool-selection.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { MeantCall, Tool, ToolSurface } from '../../contracts/tool.js';
import { isPermitted } from '../../policy/decide.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';
import { compileReveal } from '../../schema/reveal.js';
import { compileSchemaInput } from '../../schema/tool-input.js';
import type { OfferRules } from './entity-offer.js';
import type { EntityDefinition, EntityRegistry, EntityTool } from './entity-registry.js';
import { idWords } from './instance-id.js';
import { DISPATCHER_ID, groupedId, methodIn, prefixIn } from './member-ids.js';

/**
 * The tools over which the tools of entities are called. They mention no instance, so their bytes
 * are the same in every step and in every run, and each is made once for the application.
 */
export class EntitySurfaces {
  private readonly methods: ReadonlyMap<string, EntityMethod>;
  private readonly grouped = new Map<string, Tool>();
  private readonly dispatchers = new Map<string, Tool>();

  constructor({ definitions }: Pick<EntityRegistry, 'definitions'>) {
    const methods = definitions.flatMap((definition) =>
      definition.tools.map((tool): EntityMethod => ({ ...tool, definition })),
    );
    this.methods = new Map(methods.map((method) => [method.template.spec.declaredId, method]));
  }

  /**
   * The methods about which policies and selections decide before there is any instance, in the
   * order of declaration.
   */
  get members(): readonly EntityMember[] {
    return [...this.methods.values()].map(({ template: { spec, when, hooks } }) => {
      const member = { spec, origin: ORIGIN, isSelective: hooks.canCall !== undefined };
      return when ? Object.assign(member, { when }) : member;
    });
  }

  /**
   * Returns the tool of a method for all instances; undefined for a tool that no entity declares.
   */
  groupedFor(declaredId: string): Tool | undefined {
    const known = this.grouped.get(declaredId);
    const method = this.methods.get(declaredId);
    if (known || !method) return known;
    const made = groupedTool(method);
    this.grouped.set(declaredId, made);
    return made;
  }

  /** Tells whether a run had the tool of a method, and it was removed. */
  hadGroup(toolset: Pick<Toolset, 'removalOf'>): boolean {
    return [...this.methods.keys()].some(
      (declaredId) => toolset.removalOf(groupedId(declaredId)) !== undefined,
    );
  }

  /**
   * Returns the tool of all methods that a run may call; undefined without any. Its description
   * names the methods in `described`.
   */
  dispatcherFor(
    offered: readonly string[],
    described: readonly string[] = offered,
  ): Tool | undefined {
    if (offered.length === 0) return undefined;
    const key = JSON.stringify([offered, described]);
    const known = this.dispatchers.get(key);
    if (known) return known;
    const methodsOf = (ids: readonly string[]): EntityMethod[] =>
      ids.flatMap((id) => this.methods.get(id) ?? []);
    const made = dispatcherTool(methodsOf(offered), methodsOf(described));
    this.dispatchers.set(key, made);
    const [oldest] = this.dispatchers.keys();
    if (this.dispatchers.size > MOST_DISPATCHERS && oldest !== undefined)
      this.dispatchers.delete(oldest);
    return made;
  }
}

/** The most dispatchers that are cached, since runs differ in the methods they may call. */
const MOST_DISPATCHERS = 100;

/** The origin of entities, which are classes of the application. */
const ORIGIN: ToolOrigin = { source: 'discovery', trusted: true };

/** A method of an entity class. */
interface EntityMethod extends EntityTool {
  readonly definition: EntityDefinition;
}

/** A method of an entity class, as policies and selections decide about it. */
export interface EntityMember extends Pick<Tool, 'spec' | 'origin' | 'when'> {
  /** `true` if the method has a `canCall` of its own. */
  readonly isSelective: boolean;
}

/**
 * Returns the name by which the model calls an entity's tool: its id, or the surface with the
 * instance.
 */
export function operationName({ spec, entity }: Tool, toolset: Toolset): string {
  if (!entity || toolset.find(spec.id)) return spec.id;
  const { declaredId } = spec;
  const { instanceId: id } = entity;
  if (toolset.find(groupedId(declaredId)))
    return `${groupedId(declaredId)}(${JSON.stringify({ id })})`;
  return `${DISPATCHER_ID}(${JSON.stringify({ entity: prefixIn(declaredId), id, method: methodIn(declaredId) })})`;
}

function groupedTool({ definition, template: { spec } }: EntityMethod): Tool {
  const { declaredId } = spec;
  const surface: ToolSurface = {
    kind: 'grouped',
    offers: new Set([declaredId]),
    meant: (sent) =>
      withId(sent, ['id', 'args'], ({ id, args }) => ({ declaredId, instanceId: id, args })),
  };
  return surfaceTool(surface, {
    ...spec,
    id: groupedId(declaredId),
    description: `${spec.description} (Of the ${definition.prefix} that \`id\` says.)`,
    inputSchema: groupedSchema(definition, spec.inputSchema),
  });
}

/**
 * Makes the schema of a grouped tool. The method's own arguments are under `args`, where none of
 * their names conflicts with the id.
 */
function groupedSchema(definition: EntityDefinition, { $defs, ...args }: JSONSchema7): JSONSchema7 {
  const hasArguments = Object.keys(args.properties ?? {}).length > 0;
  const isNeeded = (args.required ?? []).length > 0;
  return {
    type: 'object',
    properties: {
      id: {
        type: 'string',
        description: `Of a ${definition.prefix} that a tool returned: ${idWords(definition.idProperty)}`,
      },
      ...(hasArguments && { args }),
    },
    required: isNeeded ? ['id', 'args'] : ['id'],
    additionalProperties: false,
    ...($defs && { $defs }),
  };
}

function dispatcherTool(
  offered: readonly EntityMethod[],
  described: readonly EntityMethod[],
): Tool {
  const surface: ToolSurface = {
    kind: 'dispatcher',
    offers: new Set(offered.map(declaredIdOf)),
    meant: dispatchedCall,
  };
  const entities = [...new Set(offered.map(({ definition }) => definition.prefix))];
  const specs = offered.map(({ template }) => template.spec);
  return surfaceTool(surface, {
    id: DISPATCHER_ID,
    declaredId: DISPATCHER_ID,
    description: [
      'Calls a method of an object that a tool returned in this conversation; until then there is none to call.',
      ...described.map(methodLine),
    ].join('\n'),
    inputSchema: {
      type: 'object',
      properties: {
        entity: { type: 'string', enum: entities },
        id: { type: 'string', description: 'Which one, as the result shows it' },
        method: { type: 'string' },
        args: {
          type: 'object',
          description: 'Arguments of the method; leave it out where there are none',
        },
      },
      required: ['entity', 'id', 'method'],
      additionalProperties: false,
    },
    effect:
      TOOL_EFFECTS.findLast((effect) => specs.some((spec) => spec.effect === effect)) ??
      'read_only',
    labels: widest(specs.map(({ labels }) => labels)),
    redaction: { kind: 'reveal', fields: [] },
  });
}

function declaredIdOf({ template: { spec } }: EntityMethod): string {
  return spec.declaredId;
}

function methodLine({ definition, template: { spec } }: EntityMethod): string {
  const { declaredId, description, inputSchema } = spec;
  const args =
    Object.keys(inputSchema.properties ?? {}).length > 0
      ? ` args: ${JSON.stringify(inputSchema)}`
      : '';
  const id = definition.idProperty === 'id' ? '' : ` (id: ${idWords(definition.idProperty)})`;
  return `- ${prefixIn(declaredId)}${id} ${methodIn(declaredId)}: ${description}${args}`;
}

function dispatchedCall(sent: JsonValue): MeantCall | undefined {
  return withId(sent, ['entity', 'id', 'method', 'args'], ({ id, args }, { entity, method }) => {
    if (typeof entity !== 'string' || typeof method !== 'string') return undefined;
    return { declaredId: `${entity}_*_${method}`, instanceId: id, args };
  });
}

/** Reads the id of a call. Nothing is guessed: another shape is answered with its problem. */
function withId(
  sent: JsonValue,
  known: readonly string[],
  mean: (
    said: { readonly id: string; readonly args: JsonValue },
    rest: Readonly<Record<string, JsonValue>>,
  ) => MeantCall | undefined,
): MeantCall | undefined {
  if (!isJsonObject(sent) || !Object.keys(sent).every((name) => known.includes(name)))
    return undefined;
  const { id, args = {} } = sent;
  return typeof id === 'string' ? mean({ id, args }, sent) : undefined;
}

/** Makes a surface, which is never invoked itself. */
function surfaceTool(surface: ToolSurface, semantics: Omit<ToolSpec, 'schemaHash'>): Tool {
  const { description, inputSchema, outputSchema } = semantics;
  const schemaHash = sha256(
    canonicalDeclaration({ description, inputSchema, ...(outputSchema && { outputSchema }) }),
  );
  return {
    spec: Object.freeze<ToolSpec>({ ...semantics, schemaHash }),
    origin: ORIGIN,
    input: compileSchemaInput({ at: semantics.id, reserved: [], schema: inputSchema }).input,
    output: compileReveal([]),
    surface,
    invoke: () => {
      throw new Error(`${semantics.id} stands for the tools of entities and does nothing itself.`);
    },
  };
}

function widest(labels: readonly ToolLabels[]): ToolLabels {
  return {
    returns: labels.every(({ returns }) => returns === 'trusted') ? 'trusted' : 'untrusted',
    reads: labels.every(({ reads }) => reads === 'public') ? 'public' : 'private',
    egress: labels.some(({ egress }) => egress),
  };
}

/**
 * Makes the dispatcher of a run. A method with its own conditions can be checked for an instance
 * only, so a strict listing does not describe it beforehand.
 */
export function dispatcherFor(surfaces: EntitySurfaces, rules: OfferRules): Tool | undefined {
  const { run, exclude, strictListing } = rules;
  const offered = surfaces.members.filter((member) => {
    const isExcluded = exclude.some((selector) => selects(selector, { tool: member }));
    return !isExcluded && isPermitted(member, rules) && (member.when?.(run) ?? true);
  });
  const described = strictListing ? offered.filter(({ isSelective }) => !isSelective) : offered;
  return surfaces.dispatcherFor(idsOf(offered), idsOf(described));
}

function idsOf(members: readonly EntityMember[]): string[] {
  return members.map(({ spec }) => spec.declaredId);
}
