import { Injectable } from '@nestjs/common';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { boundTool } from '../discovery/bound-tool.js';
import { instanceIdOf, type EntityDefinition, type EntityTool } from '../discovery/entity.registry.js';
import type { EntityReference, Tool } from '../protocol/tool.js';
import type { EntityHandles, InjectionResult, ToolInjection } from '../protocol/tool-injection.js';
import type { WarningCode } from '../protocol/loop-event.js';
import { classOf } from '../schema/exposed-properties.accessor.js';
import { ProviderWalk } from './provider.walk.js';

/** Where an instance was found. */
export interface ExtractionContext {
  readonly handles: EntityHandles;
  /** Of the tools that will be made; 1 for what a service tool returned. */
  readonly depth: number;
}

/** What a tool returned, with what its declaration lets the model see of it. */
export type ShownResult = Pick<InjectionResult, 'live' | 'returns' | 'tool'>;

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
    const add: Tool[] = [];
    const warnings = new Map<string, Warning>();
    for (const instance of this.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition && idOf(definition, instance);
      if (definition && instanceId !== undefined) add.push(...bindTools(definition, instance, instanceId, context));
      const warning = instanceId === undefined && this.warningFor(instance, definition);
      if (warning) warnings.set(warning.message, warning);
    }
    const plain = add.length === 0 && warnings.size === 0 ? this.plainWarning(result) : undefined;
    return { add, warnings: plain ? [plain] : [...warnings.values()] };
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
      return {
        code: 'injection_failed',
        message: `A ${name} has no "${[definition.idProperty].flat().join('", "')}" that could identify it, so its tools were not added. See @ToolProvider({ instanceIdProperty }).`,
      };
    }
    if (!this.catalog.entities.isUnknownProvider(instance)) return undefined;
    return {
      code: 'unknown_provider',
      message: `${name} is marked @ToolProvider() but not known, so its tools were not added. List it in ToolLoopModule.forFeature({ entities: [${name}] }).`,
    };
  }
}

/** An instance whose id cannot be read has none; the others of the result are not to suffer for it. */
function idOf(definition: EntityDefinition, instance: object): string | undefined {
  try {
    return instanceIdOf(definition, instance);
  } catch {
    return undefined;
  }
}

/** The tools of one instance. One compiled template per method serves every instance. */
function bindTools(definition: EntityDefinition, instance: object, instanceId: string, { handles, depth }: ExtractionContext): Tool[] {
  const name = handles.nameOf(definition.type, instanceId, definition.maxIdLength);
  const entity: EntityReference = { provider: definition.type.name, instanceId, depth };
  return definition.tools.map((tool) =>
    bindTool(tool, { instance, entity, id: `${definition.prefix}_${name}_${tool.name}`, isHandle: name !== instanceId }),
  );
}

function bindTool(
  { template }: EntityTool,
  bound: { readonly instance: object; readonly entity: EntityReference; readonly id: string; readonly isHandle: boolean },
): Tool {
  const { instance, entity, id, isHandle } = bound;
  const description = isHandle
    ? `${template.spec.description} (${entity.provider} ${JSON.stringify(entity.instanceId.slice(0, 80))})`
    : template.spec.description;
  const tool = boundTool(template, () => instance);
  return Object.assign(tool, { spec: Object.freeze({ ...template.spec, id, description }), entity }); // not copied again: there may be thousands
}
