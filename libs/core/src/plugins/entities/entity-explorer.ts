import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { type Finding, isObject } from '@toolloop/protocol';
import { OPERATIONS_KEY } from '../../contracts/result-projector.js';
import { type Rehydrate } from '../../contracts/entity.js';
import { type ToolLayers } from '../../contracts/tool.js';
import {
  methodNamesOf,
  providerOptionsOf,
  type ToolMethod,
  toolMethodsOf,
} from '../../tools/decorators/tool-metadata.js';
import {
  TOOL_PROVIDER,
  type ToolProviderOptions,
} from '../../tools/decorators/tool-provider.decorator.js';
import { nearestName } from '../../findings/nearest-name.js';
import { exposedPropertiesOf } from '../../schema/exposed-properties.js';
import { entityDirectiveFindings } from '../directives/directive-compiler.js';
import {
  type EntityDefinition,
  type EntityLookup,
  EntityRegistry,
  type EntityTool,
} from './entity-registry.js';
import { handlerOf, hasEnhancers } from '../../tools/nest/enhancers.js';
import { lostMetadataFindings } from '../../tools/nest/lost-metadata.js';
import { type MethodLayers } from '../../tools/nest/nest-layers.js';
import {
  foldedId,
  misplacedFindings,
  prefixOf,
  SAFE_PREFIX,
  sharedIdProblem,
  type TakenId,
  TOOL_ID_LENGTH,
} from '../../tools/discovery/tool-names.js';
import { placeOf, type ToolTemplateCompiler } from '../../tools/discovery/tool-template.js';

/**
 * Finds every entity class the application can return: those named in `forFeature`, and those
 * reached from an `output` class through its exposed fields, or from the results of the entities'
 * own tools.
 */
export class EntityExplorer {
  private readonly findings: Finding[] = [];
  private readonly definitions: EntityDefinition[] = [];

  constructor(
    private readonly compiler: ToolTemplateCompiler,
    private readonly container: EntityContainer,
  ) {}

  explore(
    named: readonly Type[],
    returned: readonly Type[],
  ): { readonly registry: EntityRegistry; readonly findings: readonly Finding[] } {
    const present = named.filter((type: Type | undefined) => type !== undefined);
    if (present.length < named.length) this.findings.push(CIRCULAR);
    for (const type of present) {
      if (!providerOptionsOf(type))
        this.findings.push({
          at: type.name,
          problem: 'It is listed in forFeature({ entities }) but is not a provider of tools.',
          remedy: 'Mark it @ToolProvider().',
        });
    }
    const seen = new Set<Type>();
    const open = [...present, ...returned];
    for (let type = open.shift(); type; type = open.shift()) {
      if (seen.has(type)) continue;
      seen.add(type);
      open.push(...nestedTypesOf(type));
      if (providerOptionsOf(type)) open.push(...this.define(type));
    }
    return {
      registry: new EntityRegistry(this.definitions),
      findings: [...this.findings, ...prefixCollisions(this.definitions)],
    };
  }

  /** Adds the class's definition and tells which classes its tools return. */
  private define(type: Type): readonly Type[] {
    const declared = providerOptionsOf(type) ?? {};
    const options = TOOL_PROVIDER.sound(declared);
    const prefix = prefixOf(type, options);
    const { tools, returned } = this.compileTools(type, prefix);
    this.findings.push(
      ...misplacedFindings(type),
      ...entityFindings(type, prefix, options),
      ...TOOL_PROVIDER.findings(declared, type.name),
    );
    const longestName = Math.max(0, ...toolMethodsOf(type).map((method) => nameOf(method).length));
    const maxIdLength = Math.min(
      MAXIMAL_ID_LENGTH,
      TOOL_ID_LENGTH - prefix.length - longestName - 2,
    );
    if (maxIdLength < MINIMAL_ID_LENGTH)
      this.findings.push({
        at: type.name,
        problem: `Its prefix and its longest tool name leave no room for an id within ${TOOL_ID_LENGTH} characters.`,
        remedy: 'Shorten the prefix or the name.',
      });
    const lookup = this.container.lookups.get(type);
    const { rehydrate = lookup ? 'always' : 'never', tenantProperty } = options;
    this.findings.push(...rehydrationFindings(type, rehydrate, lookup));
    this.definitions.push({
      type,
      modules: this.container.modules.flatMap(([entity, modules]) =>
        entity === type ? modules : [],
      ),
      prefix,
      idProperty: options.instanceIdProperty ?? 'id',
      ...(tenantProperty !== undefined && { tenantProperty }),
      ...(lookup && rehydrate !== 'never' && { rehydration: { when: rehydrate, lookup } }),
      tools,
      maxIdLength,
    });
    return returned;
  }

  private compileTools(
    type: Type,
    prefix: string,
  ): { readonly tools: readonly EntityTool[]; readonly returned: readonly Type[] } {
    const tools: EntityTool[] = [];
    const returned: Type[] = [];
    const taken = new Map<string, TakenId>();
    for (const method of toolMethodsOf(type)) {
      const name = nameOf(method);
      const at = placeOf({ type, method });
      const declaredId = `${prefix}_*_${name}`;
      const { template, returns, findings } = this.compiler.compile({ type, method, declaredId });
      this.findings.push(
        ...findings,
        ...nameFindings(at, name),
        ...collisionFindings(at, declaredId, taken.get(foldedId(name))),
        ...lostMetadataFindings(type, method),
      );
      const isFoundAgain =
        this.container.lookups.has(type) && providerOptionsOf(type)?.rehydrate !== 'never';
      this.findings.push(
        ...entityDirectiveFindings(at, method.options?.directive, {
          name: type.name,
          isFoundAgain,
        }),
      );
      taken.set(foldedId(name), { declaredId, at });
      if (returns) returned.push(returns.type);
      const wrapper = this.container.hosts.get(type);
      if (!wrapper && isGuarded(type, method)) this.findings.push(unhosted(at, type));
      const layers = this.container.layers.of({ type, method, ...(wrapper && { wrapper }) });
      if (template) tools.push({ name, template: { ...template, layers } });
    }
    return { tools, returned };
  }
}

/**
 * An id shorter than this would leave no room for a handle such as `h99999`: a run may meet many
 * instances.
 */
const MINIMAL_ID_LENGTH = 6;

/** Ids longer than this become handles, as DESIGN.md section 3 says. */
const MAXIMAL_ID_LENGTH = 24;

/** The parts of the container that entities need: they are no providers themselves. */
export interface EntityContainer {
  readonly layers: MethodLayers<ToolLayers | undefined>;
  readonly hosts: ReadonlyMap<Type, InstanceWrapper<object>>;
  readonly lookups: ReadonlyMap<Type, EntityLookup>;
  /** The classes that features name, with the modules that have these features. */
  readonly modules: readonly (readonly [Type, readonly Type[]])[];
}

const CIRCULAR: Finding = {
  at: 'ToolLoopModule.forFeature({ entities })',
  problem:
    'One of the entities is undefined, most likely because files import each other in a circle.',
  remedy:
    'Break the circle: import only the type where the type is enough, and write `output: () => X` where entities name each other.',
};

function isGuarded(type: Type, { property }: ToolMethod): boolean {
  const handler = handlerOf(type, property);
  return hasEnhancers(type) || (handler !== undefined && hasEnhancers(handler));
}

/** Nest makes guards and the like for providers only, and would skip this class's silently. */
function unhosted(at: string, type: Type): Finding {
  return {
    at,
    problem: 'It has guards, pipes, interceptors or filters, but no module creates them.',
    remedy: `List the class in the module that has what they need: ToolLoopModule.forFeature({ entities: [${type.name}], imports: [...] }).`,
  };
}

function nameOf({ options, property }: ToolMethod): string {
  return options?.name ?? property;
}

function nameFindings(at: string, name: string): Finding[] {
  if (/^[a-zA-Z0-9_-]+$/.test(name)) return [];
  return [
    {
      at,
      problem: `"${name}" is not a safe name for a tool.`,
      remedy: 'Give a name of letters, digits, - and _: @LlmTool({ name }).',
    },
  ];
}

function collisionFindings(at: string, declaredId: string, taken: TakenId | undefined): Finding[] {
  if (taken === undefined) return [];
  return [
    {
      at,
      problem: sharedIdProblem(declaredId, taken),
      remedy: 'Give one of them another name: @LlmTool({ name }).',
    },
  ];
}

function entityFindings(
  type: Type,
  prefix: string,
  {
    instanceIdProperty = 'id',
    tenantProperty,
    ...options
  }: Pick<ToolProviderOptions, 'namespace' | 'instanceIdProperty' | 'tenantProperty'>,
): Finding[] {
  const findings: Finding[] = [];
  const ids = [instanceIdProperty].flat();
  if (ids.length === 0 || ids.includes('') || new Set(ids).size < ids.length)
    findings.push({
      at: type.name,
      problem: `Its instanceIdProperty is ${JSON.stringify(instanceIdProperty)}.`,
      remedy:
        'Name a property or method, or each of several once: @ToolProvider({ instanceIdProperty }).',
    });
  else
    findings.push(
      ...ids.flatMap((name) =>
        memberFindings(type, `Its instances are identified by "${name}"`, name),
      ),
    );
  findings.push(
    ...memberFindings(type, `Its tenantProperty names "${tenantProperty}"`, tenantProperty),
  );
  if (!SAFE_PREFIX.test(prefix))
    findings.push({
      at: type.name,
      problem: `"${prefix}" is not a valid prefix.`,
      remedy: 'Use letters and digits, a letter first: @ToolProvider({ prefix }).',
    });
  if (options.namespace !== undefined)
    findings.push({
      at: type.name,
      problem: 'It is an entity and has a namespace.',
      remedy: 'An entity has a prefix: @ToolProvider({ prefix }).',
    });
  if (exposedPropertiesOf(type).some(({ name }) => name === OPERATIONS_KEY))
    findings.push({
      at: type.name,
      problem: `It shows "${OPERATIONS_KEY}", under which the model reads what can be called on an entity.`,
      remedy: 'Give the property another name: @Expose({ name }).',
    });
  if (toolMethodsOf(type).length === 0)
    findings.push({
      at: type.name,
      problem: 'It is marked @ToolProvider() and has no tools.',
      remedy: 'Mark a method @LlmTool(), or remove @ToolProvider().',
    });
  return findings;
}

/**
 * Returns whether the instances of a class have a property or a method, as far as a class tells: by
 * a decorator, on its prototype, or in its source text. A class that copies all the properties it
 * is given may have any.
 */
function hasMember(type: Type, name: string): boolean {
  const prototype: unknown = type.prototype;
  if (
    !isObject(prototype) ||
    name in prototype ||
    Reflect.hasMetadata('design:type', prototype, name)
  )
    return true;
  if (exposedPropertiesOf(type).some((property) => property.property === name)) return true;
  const words = new Set(sourceOf(type).match(/Object\.assign\(this|this\[|[\w$]+/g));
  return ['Object.assign(this', 'this[', name].some((word) => words.has(word));
}

/** The source text of a class and of those that it extends. */
function sourceOf(type: unknown): string {
  return typeof type === 'function'
    ? Function.prototype.toString.call(type) + sourceOf(Reflect.getPrototypeOf(type))
    : '';
}

/** A name that no instance has would identify nothing. */
function memberFindings(type: Type, subject: string, name: string | undefined): Finding[] {
  if (name === undefined || hasMember(type, name)) return [];
  const known = [
    ...exposedPropertiesOf(type).map(({ property }) => property),
    ...methodNamesOf(type),
  ];
  return [
    {
      at: type.name,
      problem: `${subject}, and it has no such property or method.`,
      remedy: nearestName(name, known),
    },
  ];
}

function rehydrationFindings(
  { name: at }: Type,
  rehydrate: Rehydrate,
  lookup: EntityLookup | undefined,
): Finding[] {
  if (rehydrate === 'never' || lookup) return [];
  const problem = `Its instances must be looked up again (rehydrate: '${rehydrate}'), but it has no resolver.`;
  return [
    {
      at,
      problem,
      remedy: `Provide a class marked @ToolEntityResolver(${at}), or leave rehydrate out.`,
    },
  ];
}

function prefixCollisions(definitions: readonly EntityDefinition[]): Finding[] {
  return definitions.flatMap(({ type, prefix }, index) => {
    const first = definitions.findIndex((other) => foldedId(other.prefix) === foldedId(prefix));
    if (first === index) return [];
    return [
      {
        at: type.name,
        problem: `Its prefix "${prefix}" is already that of ${definitions[first]?.type.name}${definitions[first]?.prefix === prefix ? '' : ', but for its case'}.`,
        remedy: 'Give one of them another: @ToolProvider({ prefix }).',
      },
    ];
  });
}

function nestedTypesOf(type: Type): Type[] {
  return exposedPropertiesOf(type).flatMap((property) =>
    [property.nested() ?? [], property.kinds()].flat(),
  );
}
