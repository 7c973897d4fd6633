import { Injectable } from '@nestjs/common';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { DISCOVERED } from '../discovery/tool.explorer.js';
import { instanceIdOf, type EntityDefinition, type EntityTool } from '../discovery/entity.registry.js';
import type { EntityReference, Tool } from '../protocol/tool.js';
import type { EntityHandles, ToolInjection } from '../protocol/tool-injection.js';
import type { WarningCode } from '../protocol/loop-event.js';
import { ProviderWalk } from './provider.walk.js';

/** Where an instance was found. */
export interface ExtractionContext {
  readonly handles: EntityHandles;
  /** Of the tools that will be made; 1 for what a service tool returned. */
  readonly depth: number;
}

interface Warning {
  readonly code: WarningCode;
  readonly message: string;
}

/** Finds the entities in a result and makes their tools, each bound to its instance. */
@Injectable()
export class ToolProviderExtractor {
  private readonly walk = new ProviderWalk();

  constructor(private readonly catalog: ToolCatalog) {}

  extract(result: unknown, context: ExtractionContext): Required<Pick<ToolInjection, 'add' | 'warnings'>> {
    const add: Tool[] = [];
    const warnings = new Map<string, Warning>();
    for (const instance of this.walk.objectsIn(result)) {
      const definition = this.catalog.entities.find(instance);
      const instanceId = definition && instanceIdOf(definition, instance);
      if (definition && instanceId !== undefined) add.push(...bindTools(definition, instance, instanceId, context));
      const warning = this.warningFor(instance, definition, instanceId);
      if (warning) warnings.set(warning.message, warning);
    }
    return { add, warnings: [...warnings.values()] };
  }

  private warningFor(instance: object, definition: EntityDefinition | undefined, instanceId: string | undefined): Warning | undefined {
    const name = instance.constructor?.name ?? 'object';
    if (definition && instanceId === undefined) {
      return {
        code: 'injection_failed',
        message: `A ${name} has no "${definition.idProperty}" that could identify it, so its tools were not added. See @ToolProvider({ instanceIdProperty }).`,
      };
    }
    if (!definition && this.catalog.entities.isUnknownProvider(instance)) {
      return {
        code: 'unknown_provider',
        message: `${name} is marked @ToolProvider() but not known, so its tools were not added. List it in ToolLoopModule.forFeature({ entities: [${name}] }).`,
      };
    }
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
  return {
    spec: Object.freeze({ ...template.spec, id, description }),
    origin: DISCOVERED,
    input: template.input,
    output: template.output,
    entity,
    ...(template.when && { when: template.when }),
    ...(template.timeoutMs !== undefined && { timeoutMs: template.timeoutMs }),
    invoke: (input, context) => template.call(instance, input, context),
  };
}
