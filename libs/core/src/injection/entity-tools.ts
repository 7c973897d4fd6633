import { Injectable, type Type } from '@nestjs/common';
import { type EntityReference, isObject, type WarningCode } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { prefixIn } from '../catalog/tool-selection.js';
import {
  type EntityHandles,
  type EntityKey,
  type InjectionResult,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../contracts/injection.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import {
  type EntityDefinition,
  type EntityTool,
  HeldInstance,
  instanceIdOf,
  isForeign,
} from '../discovery/entity-registry.js';
import { boundTool } from '../discovery/tool-template.js';
import type { OperationsOn } from '../execution/result-pages.js';
import {
  classOf,
  exposedPropertiesOf,
  type ExposedProperty,
  hiddenPropertiesOf,
  isVisibleTo,
  type Kinds,
  shapeFor,
} from '../schema/exposed-properties.js';
import { kindFor } from '../schema/result-projection.js';

/** The place where an instance was found. */
export interface ExtractionContext {
  readonly handles: EntityHandles;
  /** The depth of the tools that will be made; 1 for the result of a service tool. */
  readonly depth: number;
  readonly run: Pick<RunContext, 'tenant'>;
}

/** The result of a tool, with the part of its declaration that decides what the model sees. */
export type ShownResult = Pick<
  InjectionResult,
  'live' | 'entities' | 'returns' | 'tool' | 'calledAs'
>;

interface Warning {
  readonly code: WarningCode;
  readonly message: string;
}

/** Finds the entities in a result and makes their tools, each bound to its instance. */
@Injectable()
export class ToolProviderExtractor {
  private readonly walk = new ProviderWalk();

  constructor(private readonly catalog: ToolCatalog) {}

  extract(result: ShownResult, context: ExtractionContext): Extracted {
    const add = this.foundAgain(result, context);
    const warnings = new Map<string, Warning>();
    const { handles, depth, run } = context;
    for (const instance of this.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition && readInstanceId(definition, instance, run.tenant);
      if (definition && instanceId !== undefined) {
        const held = new HeldInstance(definition, instanceId, instance);
        add.push(
          ...bindTools(definition, held, {
            instanceId,
            depth,
            handles,
            givenBy: calledNameOf(result),
          }),
        );
      }
      const warning = instanceId === undefined && this.warningFor(instance, definition);
      if (warning) warnings.set(warning.message, warning);
    }
    const plain = add.length === 0 && warnings.size === 0 ? this.plainWarning(result) : undefined;
    return { add, warnings: plain ? [plain] : [...warnings.values()] };
  }

  /**
   * Returns the keys of a result's entities that a resolver can find again, for a run that
   * continues in another process.
   */
  keysIn(result: ShownResult, { tenant }: Pick<RunContext, 'tenant'>): readonly EntityKey[] {
    const keys = new Map<string, EntityKey>();
    for (const instance of this.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition?.rehydration && readInstanceId(definition, instance, tenant);
      if (!definition || instanceId === undefined) continue;
      const { prefix } = definition;
      keys.set(keyOf(prefix, instanceId), { prefix, instanceId });
    }
    return [...keys.values()];
  }

  /** Names the tools of each instance in a result, as the run's surface calls them. */
  namesFor(
    tools: readonly Tool[],
    { tenant }: Pick<RunContext, 'tenant'>,
    nameOf: (tool: Tool) => string = ({ spec }) => spec.id,
  ): OperationsOn {
    const names = new Map<string, string[]>();
    for (const tool of tools) {
      const { spec, entity } = tool;
      if (!entity) continue;
      const key = keyOf(prefixIn(spec.declaredId), entity.instanceId);
      const known = names.get(key);
      if (known) known.push(nameOf(tool));
      else names.set(key, [nameOf(tool)]);
    }
    return (instance) => {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition && readInstanceId(definition, instance, tenant);
      return (
        (definition &&
          instanceId !== undefined &&
          names.get(keyOf(definition.prefix, instanceId))) ||
        []
      );
    };
  }

  private foundAgain(
    { entities = [], ...result }: ShownResult,
    { handles, depth }: ExtractionContext,
  ): Tool[] {
    return entities.flatMap(({ prefix, instanceId }) => {
      const definition = this.catalog.entities.withPrefix(prefix);
      if (!definition?.rehydration) return [];
      return bindTools(definition, new HeldInstance(definition, instanceId), {
        instanceId,
        depth,
        handles,
        givenBy: calledNameOf(result),
      });
    });
  }

  /**
   * Warns of plain objects in place of entities, such as rows of an ORM: they are shown, but bring
   * no tools.
   */
  private plainWarning({ live, returns }: ShownResult): Warning | undefined {
    const definition =
      returns && this.catalog.entities.definitions.find(({ type }) => type === returns);
    if (!definition || this.walk.listedIn(live).length === 0) return undefined;
    const { name } = definition.type;
    return {
      code: 'injection_failed',
      message: `The result is declared as ${name} and holds no instance of it, so no tools were added. Return instances: new ${name}(row).`,
    };
  }

  /**
   * Returns the objects that can be entities. With a list in `reveal` these are only the objects
   * themselves, since a picked field is plain JSON.
   */
  private objectsIn({ live, tool: { redaction }, returns }: ShownResult): Iterable<object> {
    if (redaction.kind !== 'reveal' || redaction.fields === 'all')
      return this.walk.objectsIn(live, returns);
    return redaction.fields.length === 0 ? [] : this.walk.listedIn(live);
  }

  private warningFor(
    instance: object,
    definition: EntityDefinition | undefined,
  ): Warning | undefined {
    if (!definition && !this.catalog.entities.isUnknownProvider(instance)) return undefined;
    const name = classOf(instance)?.name ?? 'object';
    if (definition) {
      const wanted = definition.tenantProperty === undefined ? '' : ", or is another tenant's";
      return {
        code: 'injection_failed',
        message: `A ${name} has no "${[definition.idProperty].flat().join('", "')}" that could identify it${wanted}, so its tools were not added. See @ToolProvider({ instanceIdProperty }).`,
      };
    }
    return {
      code: 'unknown_provider',
      message: `${name} is marked @ToolProvider() but not known, so its tools were not added. List it in ToolLoopModule.forFeature({ entities: [${name}] }).`,
    };
  }
}

type Extracted = Required<Pick<ToolInjection, 'add' | 'warnings'>>;

/**
 * Returns whether a result is a scalar, or a plain object or a list of scalars: then there is no
 * entity in it.
 */
function holdsNothing({ live, entities, returns }: ShownResult): boolean {
  if (entities !== undefined || returns !== undefined) return false;
  if (!isObject(live)) return true;
  if (Array.isArray(live)) return !live.some(isObject);
  return (
    isPlain(live) &&
    !isIterable(live) &&
    Object.keys(live).every((name) => !isObject(readProperty(live, name)))
  );
}

function calledNameOf({ calledAs, tool }: ShownResult): string {
  return calledAs ?? tool.id;
}

function keyOf(prefix: string, instanceId: string): string {
  return JSON.stringify([prefix, instanceId]);
}

/**
 * Reads the id of an instance; undefined if it cannot be read or the instance is of another tenant,
 * so that the others of the result are not affected.
 */
function readInstanceId(
  definition: EntityDefinition,
  instance: object,
  tenant: string,
): string | undefined {
  try {
    return isForeign(definition, instance, tenant) ? undefined : instanceIdOf(definition, instance);
  } catch {
    return undefined;
  }
}

/** The identity of an instance within a run. */
export interface KnownInstance extends Pick<EntityReference, 'instanceId' | 'depth'> {
  readonly handles: EntityHandles;
  /** The tool that returned it, as the model called it. */
  readonly givenBy: string;
}

/** Makes the tools of one instance. One compiled template per method serves every instance. */
export function bindTools(
  definition: EntityDefinition,
  held: HeldInstance,
  { instanceId, depth, handles, givenBy }: KnownInstance,
): Tool[] {
  const name = handles.nameOf(definition.type, instanceId, definition.maxIdLength);
  const entity: EntityReference = { provider: definition.type.name, instanceId, depth };
  return definition.tools.map((tool) =>
    bindTool(tool, {
      held,
      entity,
      id: `${definition.prefix}_${name}_${tool.name}`,
      isHandle: name !== instanceId,
      givenBy,
    }),
  );
}

/**
 * Makes one tool of an instance that is looked up when it is called, for calls outside of the run
 * that was given the instance; undefined where nothing finds it again.
 */
export function toolFoundAgain(
  { entities }: Pick<ToolCatalog, 'entities'>,
  declaredId: string,
  instanceId: string,
): Tool | undefined {
  const definition = entities.withPrefix(prefixIn(declaredId));
  const tool = definition?.tools.find(({ template }) => template.spec.declaredId === declaredId);
  if (!definition?.rehydration || !tool) return undefined;
  const entity: EntityReference = { provider: definition.type.name, instanceId, depth: 1 };
  const held = new HeldInstance(definition, instanceId);
  return bindTool(tool, {
    held,
    entity,
    id: `${definition.prefix}_${instanceId}_${tool.name}`,
    isHandle: false,
  });
}

interface BoundInstance extends Partial<Pick<KnownInstance, 'givenBy'>> {
  readonly held: HeldInstance;
  readonly entity: EntityReference;
  readonly id: string;
  readonly isHandle: boolean;
}

function bindTool(
  { template }: EntityTool,
  { held, entity, id, isHandle, givenBy }: BoundInstance,
): Tool {
  const description = isHandle
    ? `${template.spec.description} (${entity.provider} ${JSON.stringify(entity.instanceId.slice(0, 80))})`
    : template.spec.description;
  const spec = Object.freeze({ ...template.spec, id, description });
  // Not copied again: there may be thousands.
  const on = (instance: object): Tool =>
    Object.assign(
      boundTool(template, () => instance),
      { spec, entity, ...(givenBy !== undefined && { givenBy }) },
    );
  const { lookUp, live } = held;
  if (!lookUp) return on(held.instance);
  const rehydration = { key: held.key, lookUp, on };
  return { ...(live ? on(live) : unfound(on(UNFOUND))), rehydration };
}

/** The placeholder of an instance that was not resolved yet; every call resolves it first. */
const UNFOUND = Object.freeze({});

/**
 * Removes the hooks of a tool whose instance was not resolved: they run at the call, on the
 * resolved one, since a list must not resolve a thousand instances.
 */
function unfound({
  canCall: _canCall,
  preflight: _preflight,
  preview: _preview,
  ...tool
}: Tool): Tool {
  return tool;
}

/** The deepest level that is visited, as in a projection: a deeper result is never shown. */
const MOST_LEVELS = 64;
/**
 * The most objects that are visited in one result; the cap of injected tools is reached long
 * before.
 */
const MOST_OBJECTS = 10_000;

/**
 * The classes that a field or a tool declares for its objects: one, or several among which a
 * discriminator chooses.
 */
interface Declared {
  readonly type: Type | undefined;
  readonly kinds?: Kinds;
}

const UNDECLARED: Declared = { type: undefined };

/** An object, with what is declared for it, and its level. */
interface Found {
  readonly value: object;
  readonly declared: Declared;
  readonly level: number;
}

/** The part of a class that the model sees. */
interface ShownClass {
  readonly exposesAnything: boolean;
  readonly properties: readonly { readonly property: string; readonly declared: Declared }[];
  /** The properties that it hides of its instances, whatever class is declared for them. */
  readonly hidden: ReadonlySet<string>;
}

/**
 * Visits the objects that a result shows the model. Fields that are not exposed are never visited.
 */
export class ProviderWalk {
  private readonly classes = new WeakMap<Type, ShownClass>();

  /**
   * Yields every object that a result shows, in the order of the result: the value itself, elements
   * of lists, sets and maps, values of plain objects, and the exposed fields of class instances. A
   * declared class decides what is exposed, also for instances of subclasses and for plain objects;
   * an instance's own class may hide some of it. Of several declared classes, it is that of the
   * object, as in a projection.
   */
  *objectsIn(result: unknown, returns?: Type): Generator<object> {
    const seen = new Set<object>();
    const open: Found[] = isObject(result)
      ? [{ value: result, declared: { type: returns }, level: 0 }]
      : [];
    for (let next = open.pop(); next && seen.size < MOST_OBJECTS; next = open.pop()) {
      const { value, level } = next;
      if (seen.has(value)) continue;
      seen.add(value);
      yield value;
      if (level < MOST_LEVELS) open.push(...this.childrenOf(next).toReversed());
    }
  }

  /** Returns the result itself, or the objects of a list, and nothing within them. */
  listedIn(result: unknown): readonly object[] {
    const items: readonly unknown[] = Array.isArray(result) ? result.flat(MOST_LEVELS) : [result];
    return items.slice(0, MOST_OBJECTS).filter(isObject);
  }

  /** Returns the objects within a value, without scalars. */
  private childrenOf({ value, declared, level }: Found): Found[] {
    const shown = value instanceof Map ? undefined : this.shownAs(value, declared);
    const children: Found[] = [];
    const add = (child: unknown, type: Declared): void => {
      if (isObject(child)) children.push({ value: child, declared: type, level: level + 1 });
    };
    if (shown) for (const one of shown) add(readProperty(value, one.property), one.declared);
    else if (isIterable(value))
      for (const item of firstOf(value instanceof Map ? value.values() : value))
        add(item, declared);
    else if (isPlain(value))
      for (const name of Object.keys(value)) add(readProperty(value, name), UNDECLARED);
    return children;
  }

  /**
   * Finds the class whose exposures decide what is shown of an object; undefined for lists and for
   * objects without such a class.
   */
  private shownAs(value: object, choice: Declared): ShownClass['properties'] | undefined {
    const declared = classFor(value, choice);
    const type = classOf(value);
    const own = type && this.shownBy(type);
    const speaksForItself = own?.exposesAnything === true;
    if (isIterable(value) && !speaksForItself) return undefined;
    if (declared && (!speaksForItself || value instanceof declared))
      return this.shownBy(declared).properties.filter(
        ({ property }) => own?.hidden.has(property) !== true,
      );
    return speaksForItself ? own.properties : undefined;
  }

  private shownBy(type: Type): ShownClass {
    const known = this.classes.get(type);
    if (known) return known;
    const exposed = exposedPropertiesOf(type);
    const visible = exposed.filter(
      (one) => !one.method && isVisibleTo(one, 'model') && mayHoldObjects(one),
    );
    const properties = visible.map((property) => ({
      property: property.property,
      declared: declaredFor(property),
    }));
    const shown = {
      exposesAnything: exposed.length > 0,
      properties,
      hidden: hiddenPropertiesOf(type, 'model'),
    };
    this.classes.set(type, shown);
    return shown;
  }
}

/** Returns the items of an iterable until it fails or reaches the limit. */
function firstOf(items: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  try {
    for (const item of items) {
      first.push(item);
      if (first.length >= MOST_OBJECTS) break;
    }
  } catch {
    // the items before the failure were shown
  }
  return first;
}

/**
 * Reads a property. A getter that returned its value when the result was shown may throw when it is
 * read again.
 */
function readProperty(value: object, property: string): unknown {
  try {
    return Reflect.get(value, property);
  } catch {
    return undefined;
  }
}

/** Finds the one that decides about a value of the classes that are declared for it. */
function classFor(value: object, { type, kinds }: Declared): Type | undefined {
  const kind = kinds && kindFor(value, kinds);
  return kind ? kind.type : type;
}

function declaredFor(property: ExposedProperty): Declared {
  const shape = property.shape();
  return {
    type: property.nested(),
    ...(shape.kind === 'class' && shape.kinds && { kinds: shape.kinds }),
  };
}

/** A property that is declared as a scalar shows no object, whatever it holds. */
function mayHoldObjects(property: ExposedProperty): boolean {
  return shapeFor(property, 'model').kind !== 'scalar';
}

function isPlain(value: object): boolean {
  const type = classOf(value);
  return type === undefined || type === Object;
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

/**
 * Adds the tools of every entity that a result shows. On by default. Beyond the nesting depth it
 * still refreshes the instances of existing tools.
 */
export class ToolProviderStrategy extends ToolInjectionStrategy {
  override readonly name = 'entities';
  override readonly yields = true;

  constructor(private readonly extractor: ToolProviderExtractor) {
    super();
  }

  override concerns(result: ShownResult): boolean {
    return !holdsNothing(result);
  }

  override evaluate({ last, limits, handles, toolset, run }: ToolInjectionContext): ToolInjection {
    const depth = last.depth + 1;
    const extracted = this.extractor.extract(last, { handles, depth, run });
    if (depth <= limits.injectionDepth) return extracted;
    const there = new Set(toolset.map(({ id }) => id));
    const add = extracted.add.filter(({ spec }) => there.has(spec.id));
    if (add.length === extracted.add.length) return extracted;
    const message = `The tools that the result of ${last.record.id} brings were not added: they would be ${depth} injections deep, and the limit is ${limits.injectionDepth}.`;
    return { add, warnings: [...extracted.warnings, { code: 'injection_depth', message }] };
  }
}
