import { Injectable } from '@nestjs/common';
import { prefixIn } from '../catalog/entity-keys.js';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { boundTool } from '../discovery/bound-tool.js';
import { instanceIdOf, isForeign, type EntityDefinition, type EntityTool } from '../discovery/entity.registry.js';
import type { OperationsOn } from '../execution/available-operations.js';
import { HeldInstance } from '../discovery/held.instance.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { EntityReference, Tool } from '../protocol/tool.js';
import type { EntityHandles, EntityKey, InjectionResult, ToolInjection } from '../protocol/tool-injection.js';
import type { WarningCode } from '../protocol/loop-event.js';
import { classOf } from '../schema/exposed-properties.accessor.js';
import { ProviderWalk } from './provider.walk.js';

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
