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
import { type EntityDefinition, type EntityTool, HeldInstance, instanceIdOf, isForeign } from '../discovery/entity-registry.js';
import { boundTool } from '../discovery/tool-template.js';
import type { OperationsOn } from '../execution/result-pages.js';
import { classOf, exposedPropertiesOf, isVisibleTo } from '../schema/exposed-properties.js';

/** Where an instance was found. */
export interface ExtractionContext {
  readonly handles: EntityHandles;
  /** Of the tools that will be made; 1 for what a service tool returned. */
  readonly depth: number;
  readonly run: Pick<RunContext, 'tenant'>;
}

/** What a tool returned, with what its declaration lets the model see of it. */
export type ShownResult = Pick<InjectionResult, 'live' | 'entities' | 'returns' | 'tool' | 'calledAs'>;

interface Warning {
  readonly code: WarningCode;
  readonly message: string;
}

/** Finds the entities in a result and makes their tools, each bound to its instance. */
@Injectable()
export class ToolProviderExtractor {
  private readonly walk = new ProviderWalk();

  constructor(private readonly catalog: ToolCatalog) {}

  extract(result: ShownResult, context: ExtractionContext): Required<Pick<ToolInjection, 'add' | 'warnings'>> {
    const add = this.foundAgain(result, context);
    const warnings = new Map<string, Warning>();
    const { handles, depth, run } = context;
    for (const instance of this.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition && idOf(definition, instance, run.tenant);
      if (definition && instanceId !== undefined) {
        const held = new HeldInstance(definition, instanceId, instance);
        add.push(...bindTools(definition, held, { instanceId, depth, handles, givenBy: calledNameOf(result) }));
      }
      const warning = instanceId === undefined && this.warningFor(instance, definition);
      if (warning) warnings.set(warning.message, warning);
    }
    const plain = add.length === 0 && warnings.size === 0 ? this.plainWarning(result) : undefined;
    return { add, warnings: plain ? [plain] : [...warnings.values()] };
  }

  /** The entities of a result that a resolver would find again: what is left of it where the run goes on in another process. */
  keysIn(result: ShownResult, { tenant }: Pick<RunContext, 'tenant'>): readonly EntityKey[] {
    const keys = new Map<string, EntityKey>();
    for (const instance of this.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition?.rehydration && idOf(definition, instance, tenant);
      if (!definition || instanceId === undefined) continue;
      const { prefix } = definition;
      keys.set(keyOf(prefix, instanceId), { prefix, instanceId });
    }
    return [...keys.values()];
  }

  /** The one place that says how a run names what can be done with an instance: by those of its tools that are the instance's own. */
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
      const instanceId = definition && idOf(definition, instance, tenant);
      return (definition && instanceId !== undefined && names.get(keyOf(definition.prefix, instanceId))) || [];
    };
  }

  private foundAgain({ entities = [], ...result }: ShownResult, { handles, depth }: ExtractionContext): Tool[] {
    return entities.flatMap(({ prefix, instanceId }) => {
      const definition = this.catalog.entities.withPrefix(prefix);
      if (!definition?.rehydration) return [];
      return bindTools(definition, new HeldInstance(definition, instanceId), { instanceId, depth, handles, givenBy: calledNameOf(result) });
    });
  }

  /** Rows of an ORM are shown well enough, and bring no tools: whoever declared an entity expects them. */
  private plainWarning({ live, returns }: ShownResult): Warning | undefined {
    const definition = returns && this.catalog.entities.definitions.find(({ type }) => type === returns);
    if (!definition || this.walk.listedIn(live).length === 0) return undefined;
    const { name } = definition.type;
    return {
      code: 'injection_failed',
      message: `The result is declared as ${name} and holds no instance of it, so no tools were added. Return instances: new ${name}(row).`,
    };
  }

  /** Of what `reveal` picks fields from, only the objects themselves can be entities: a picked field is plain JSON. */
  private objectsIn({ live, tool: { redaction }, returns }: ShownResult): Iterable<object> {
    if (redaction.kind !== 'reveal' || redaction.fields === 'all') return this.walk.objectsIn(live, returns);
    return redaction.fields.length === 0 ? [] : this.walk.listedIn(live);
  }

  private warningFor(instance: object, definition: EntityDefinition | undefined): Warning | undefined {
    const name = classOf(instance)?.name ?? 'object';
    if (definition) {
      const wanted = definition.tenantProperty === undefined ? '' : ", or is another tenant's";
      return {
        code: 'injection_failed',
        message: `A ${name} has no "${[definition.idProperty].flat().join('", "')}" that could identify it${wanted}, so its tools were not added. See @ToolProvider({ instanceIdProperty }).`,
      };
    }
    if (!this.catalog.entities.isUnknownProvider(instance)) return undefined;
    return {
      code: 'unknown_provider',
      message: `${name} is marked @ToolProvider() but not known, so its tools were not added. List it in ToolLoopModule.forFeature({ entities: [${name}] }).`,
    };
  }
}

function calledNameOf({ calledAs, tool }: ShownResult): string {
  return calledAs ?? tool.id;
}

function keyOf(prefix: string, instanceId: string): string {
  return JSON.stringify([prefix, instanceId]);
}

/** An instance whose id cannot be read has none, nor has one of another tenant; the others of the result are not to suffer for it. */
function idOf(definition: EntityDefinition, instance: object, tenant: string): string | undefined {
  try {
    return isForeign(definition, instance, tenant) ? undefined : instanceIdOf(definition, instance);
  } catch {
    return undefined;
  }
}

/** How a run knows an instance. */
export interface KnownInstance extends Pick<EntityReference, 'instanceId' | 'depth'> {
  readonly handles: EntityHandles;
  /** The tool that returned it, as the model called it. */
  readonly givenBy: string;
}

/** The tools of one instance. One compiled template per method serves every instance. */
export function bindTools(
  definition: EntityDefinition,
  held: HeldInstance,
  { instanceId, depth, handles, givenBy }: KnownInstance,
): Tool[] {
  const name = handles.nameOf(definition.type, instanceId, definition.maxIdLength);
  const entity: EntityReference = { provider: definition.type.name, instanceId, depth };
  return definition.tools.map((tool) =>
    bindTool(tool, { held, entity, id: `${definition.prefix}_${name}_${tool.name}`, isHandle: name !== instanceId, givenBy }),
  );
}

interface BoundInstance extends Pick<KnownInstance, 'givenBy'> {
  readonly held: HeldInstance;
  readonly entity: EntityReference;
  readonly id: string;
  readonly isHandle: boolean;
}

function bindTool({ template }: EntityTool, { held, entity, id, isHandle, givenBy }: BoundInstance): Tool {
  const description = isHandle
    ? `${template.spec.description} (${entity.provider} ${JSON.stringify(entity.instanceId.slice(0, 80))})`
    : template.spec.description;
  const spec = Object.freeze({ ...template.spec, id, description });
  // Not copied again: there may be thousands.
  const on = (instance: object): Tool =>
    Object.assign(
      boundTool(template, () => instance),
      { spec, entity, givenBy },
    );
  const { lookUp, live } = held;
  if (!lookUp) return on(held.instance);
  const rehydration = { key: held.key, lookUp, on };
  return { ...(live ? on(live) : unfound(on(UNFOUND))), rehydration };
}

/** Stands for an instance that nobody has looked for yet; every call looks for it first. */
const UNFOUND = Object.freeze({});

/** Its own word is asked at the call, on what was found: a thousand instances are not looked up to list their tools. */
function unfound({ canCall: _canCall, preview: _preview, ...tool }: Tool): Tool {
  return tool;
}

/** As deep as a projection goes: a deeper result is never shown. */
const MOST_LEVELS = 64;
/** So many objects are looked at in one result; the cap of injected tools is reached long before. */
const MOST_OBJECTS = 10_000;

/** An object, with the class its field or tool declares. */
interface Found {
  readonly value: object;
  readonly declared: Type | undefined;
}

/** How deep it was found. */
interface Placed extends Found {
  readonly level: number;
}

/** What a class shows the model. */
interface ShownClass {
  readonly exposesAnything: boolean;
  readonly properties: readonly { readonly property: string; readonly declared: Type | undefined }[];
}

/** Walks through what a result shows the model. Fields that are not exposed are never looked into. */
export class ProviderWalk {
  private readonly classes = new WeakMap<Type, ShownClass>();

  /**
   * Every object a result shows, in the order in which it shows them: the value itself, elements of lists, sets and maps, values of plain objects, and
   * the exposed fields of class instances. Where a class is declared, it says what is exposed, of instances of subclasses and of plain objects too.
   */
  *objectsIn(result: unknown, returns?: Type): Generator<object> {
    const seen = new Set<object>();
    const open: Placed[] = isObject(result) ? [{ value: result, declared: returns, level: 0 }] : [];
    for (let next = open.pop(); next && seen.size < MOST_OBJECTS; next = open.pop()) {
      const { value, declared, level } = next;
      if (seen.has(value)) continue;
      seen.add(value);
      yield value;
      if (level >= MOST_LEVELS) continue;
      for (const child of this.childrenOf(value, declared).toReversed()) open.push({ ...child, level: level + 1 });
    }
  }

  /** The objects that stand in a result, or in a list that is one, and nothing within them. */
  listedIn(result: unknown): readonly object[] {
    const items: readonly unknown[] = Array.isArray(result) ? result.flat(MOST_LEVELS) : [result];
    return items.slice(0, MOST_OBJECTS).filter(isObject);
  }

  /** Scalars lead nowhere and are left out. */
  private childrenOf(value: object, declared: Type | undefined): Found[] {
    const shown = value instanceof Map ? undefined : this.shownAs(value, declared);
    const children: Found[] = [];
    const add = (child: unknown, type: Type | undefined): void => {
      if (isObject(child)) children.push({ value: child, declared: type });
    };
    if (shown) for (const one of shown.properties) add(readOf(value, one.property), one.declared);
    else for (const item of itemsOf(value)) add(item, isIterable(value) ? declared : undefined);
    return children;
  }

  /** The class whose exposures say what is shown of an object; undefined for lists and for objects that no class speaks for. */
  private shownAs(value: object, declared: Type | undefined): ShownClass | undefined {
    const type = classOf(value);
    const own = type && this.shownBy(type);
    const speaksForItself = own?.exposesAnything === true;
    if (isIterable(value) && !speaksForItself) return undefined;
    if (declared && (!speaksForItself || value instanceof declared)) return this.shownBy(declared);
    return speaksForItself ? own : undefined;
  }

  private shownBy(type: Type): ShownClass {
    const known = this.classes.get(type);
    if (known) return known;
    const exposed = exposedPropertiesOf(type);
    const visible = exposed.filter((property) => !property.method && isVisibleTo(property, 'model'));
    const properties = visible.map((property) => ({ property: property.property, declared: property.nested() }));
    const shown = { exposesAnything: exposed.length > 0, properties };
    this.classes.set(type, shown);
    return shown;
  }
}

/** Of a list, set or map its elements; of a plain object its values. No more than are looked at, since an iterable may have no end. */
function itemsOf(value: object): readonly unknown[] {
  if (value instanceof Map) return firstOf(value.values());
  if (isIterable(value)) return firstOf(value);
  return isPlain(value) ? Object.keys(value).map((name) => readOf(value, name)) : [];
}

/** What an iterable gives until it fails, or has given as much as is looked at. */
function firstOf(items: Iterable<unknown>): readonly unknown[] {
  const first: unknown[] = [];
  try {
    for (const item of items) {
      first.push(item);
      if (first.length >= MOST_OBJECTS) break;
    }
  } catch {
    // what came before it failed was shown
  }
  return first;
}

/** A getter that gave its value when the result was shown may throw when it is asked again. */
function readOf(value: object, property: string): unknown {
  try {
    return Reflect.get(value, property);
  } catch {
    return undefined;
  }
}

function isPlain(value: object): boolean {
  const type = classOf(value);
  return type === undefined || type === Object;
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

/** Adds the tools of every entity that a result shows. On by default. Too deep, it still refreshes the instances of those that are there. */
@Injectable()
export class ToolProviderStrategy extends ToolInjectionStrategy {
  override readonly name = 'entities';
  override readonly yields = true;

  constructor(private readonly extractor: ToolProviderExtractor) {
    super();
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
