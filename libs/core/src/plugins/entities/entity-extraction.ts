import { Injectable } from '@nestjs/common';
import { type EntityReference, isObject, type WarningCode } from '@toolloop/protocol';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import {
  type EntityHandles,
  type EntityKey,
  type InjectionResult,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { Tool } from '../../contracts/tool.js';
import { classOf } from '../../schema/exposed-properties.js';
import { boundTool } from '../../tools/discovery/tool-template.js';
import { type EntityDefinition, type EntityTool, isForeign } from './entity-registry.js';
import { HeldInstance } from './held-instance.js';
import { instanceIdOf } from './instance-id.js';
import { prefixIn } from './member-ids.js';
import { ProviderWalk, isIterable, isPlain, readProperty } from './provider-walk.js';
import type { OperationsOn } from './shown-objects.js';

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
      keys.set(keyInstance(prefix, instanceId), { prefix, instanceId });
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
      const key = keyInstance(prefixIn(spec.declaredId), entity.instanceId);
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
          names.get(keyInstance(definition.prefix, instanceId))) ||
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

function keyInstance(prefix: string, instanceId: string): string {
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
