import { Injectable, type Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { providerOptionsOf, toolMethodsOf, type ToolMethod } from '../decorators/tool-metadata.accessor.js';
import type { Finding } from '../protocol/errors.js';
import { ToolSource, type Tool, type ToolOrigin } from '../protocol/tool.js';
import { ProjectionCompiler } from '../schema/result.projection.js';
import { EntityExplorer } from './entity.explorer.js';
import { EntityRegistry } from './entity.registry.js';
import { ProviderInstances } from './provider.instances.js';
import { ToolFeature } from './tool-feature.js';
import { SAFE_TOOL_ID, namespaceOf } from './tool-names.js';
import { ToolTemplateCompiler, type DeclarationRules, type ToolTemplate } from './tool.template.js';

/** Tools of the application's own classes. */
export const DISCOVERED: ToolOrigin = { source: 'discovery', trusted: true };

/** What the application's declarations come to. */
export interface Exploration {
  readonly tools: readonly ServiceTool[];
  readonly entities: EntityRegistry;
  readonly sources: readonly ToolSource[];
  readonly findings: readonly Finding[];
}

/** A tool of a Nest provider, with the class that selects it. */
export interface ServiceTool {
  readonly type: Type;
  readonly tool: Tool;
}

interface Provider {
  readonly type: Type;
  readonly wrapper: InstanceWrapper<object>;
}

/** Finds the tools of every module's providers, request-scoped ones included, and the entities their results lead to. */
@Injectable()
export class ToolExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly instances: ProviderInstances,
  ) {}

  explore(rules: DeclarationRules): Exploration {
    const compiler = new ToolTemplateCompiler(new ProjectionCompiler(), rules);
    const providers = this.providers();
    const findings: Finding[] = [];
    const tools = providers.flatMap((provider) => this.toolsOf(provider, compiler, findings));
    const returned = tools.flatMap(({ template }) => template.returns?.type ?? []);
    const entities = new EntityExplorer(compiler).explore(this.namedEntities(), returned);
    const namespaces = new Map(providers.map(({ type }) => [namespaceOf(type, providerOptionsOf(type) ?? {}), type]));
    return {
      tools,
      entities: entities.registry,
      sources: this.instancesOf(ToolSource),
      findings: [...findings, ...entities.findings, ...sharedNames(entities.registry, namespaces)],
    };
  }

  /** Every provider that is an instance of a class, in the order of the modules. */
  instancesOf<Instance>(type: abstract new (...args: never[]) => Instance): Instance[] {
    const found = this.discovery.getProviders().flatMap((wrapper) => {
      const instance: unknown = wrapper.isAlias || !wrapper.isDependencyTreeStatic() ? undefined : wrapper.instance;
      return instance instanceof type ? [instance] : [];
    });
    return [...new Set(found)];
  }

  private namedEntities(): Type[] {
    return this.instancesOf(ToolFeature).flatMap(({ options }) => options.entities ?? []);
  }

  private providers(): Provider[] {
    return this.discovery.getProviders().flatMap((wrapper: InstanceWrapper<object>) => {
      const type = wrapper.isAlias ? undefined : classOf(wrapper);
      return type && toolMethodsOf(type).length + (providerOptionsOf(type) ? 1 : 0) > 0 ? [{ type, wrapper }] : [];
    });
  }

  private toolsOf(
    provider: Provider,
    compiler: ToolTemplateCompiler,
    findings: Finding[],
  ): (ServiceTool & { readonly template: ToolTemplate })[] {
    const options = providerOptionsOf(provider.type);
    const methods = toolMethodsOf(provider.type);
    findings.push(...providerFindings(provider.type, methods));
    if (!options) return [];
    const namespace = namespaceOf(provider.type, options);
    return methods.flatMap((method) => {
      const declaredId = `${namespace}__${method.options?.name ?? method.property}`;
      const compiled = compiler.compile({ type: provider.type, method, declaredId });
      findings.push(...compiled.findings, ...idFindings(`${provider.type.name}.${method.property}`, declaredId));
      return compiled.template
        ? [{ type: provider.type, template: compiled.template, tool: this.toTool(provider, compiled.template) }]
        : [];
    });
  }

  private toTool({ wrapper }: Provider, template: ToolTemplate): Tool {
    const { spec, input, output, when, timeoutMs } = template;
    return {
      spec,
      origin: DISCOVERED,
      input,
      output,
      ...(when && { when }),
      ...(timeoutMs !== undefined && { timeoutMs }),
      invoke: (built, context) => {
        const target = this.instances.resolve(wrapper, context);
        return target instanceof Promise
          ? target.then((found) => template.call(found, built, context))
          : template.call(target, built, context);
      },
    };
  }
}

function classOf(wrapper: InstanceWrapper<object>): Type | undefined {
  const { metatype } = wrapper;
  const isFactoryOrValue = wrapper.isFactory || wrapper.isNotMetatype;
  const type: unknown = isFactoryOrValue ? wrapper.isDependencyTreeStatic() && constructorOf(wrapper.instance) : metatype;
  return isClass(type) ? type : undefined;
}

function constructorOf(instance: unknown): unknown {
  return typeof instance === 'object' && instance !== null ? instance.constructor : undefined;
}

function isClass(value: unknown): value is Type {
  return typeof value === 'function' && typeof value.prototype === 'object' && value !== Object;
}

function providerFindings(type: Type, methods: readonly ToolMethod[]): Finding[] {
  const options = providerOptionsOf(type);
  if (!options)
    return [
      { at: type.name, problem: 'It has @LlmTool() methods and is no provider of tools.', remedy: 'Mark the class @ToolProvider().' },
    ];
  if (methods.length === 0)
    return [
      {
        at: type.name,
        problem: 'It is marked @ToolProvider() and has no tools.',
        remedy: 'Mark a method @LlmTool(), or remove @ToolProvider().',
      },
    ];
  if (options.prefix !== undefined)
    return [
      {
        at: type.name,
        problem: 'It is a Nest provider and has a prefix.',
        remedy: 'A Nest provider has a namespace: @ToolProvider({ namespace }). A prefix is for entities, which are not in `providers`.',
      },
    ];
  return [];
}

function idFindings(at: string, id: string): Finding[] {
  if (SAFE_TOOL_ID.test(id)) return [];
  return [
    {
      at,
      problem: `"${id}" is no tool id that every model provider accepts.`,
      remedy: 'Use letters, digits, - and _, 64 characters at most: @ToolProvider({ namespace }), @LlmTool({ name }).',
    },
  ];
}

function sharedNames(entities: EntityRegistry, namespaces: ReadonlyMap<string, Type>): Finding[] {
  return entities.definitions.flatMap(({ type, prefix }) => {
    const service = namespaces.get(prefix);
    if (!service) return [];
    return [
      {
        at: type.name,
        problem: `Its prefix "${prefix}" is also the namespace of ${service.name}.`,
        remedy: 'Give the service another namespace: @ToolProvider({ namespace }).',
      },
    ];
  });
}
