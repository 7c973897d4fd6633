import { Injectable, type Type } from '@nestjs/common';
import {
  ApplicationConfig,
  DiscoveryService,
  ExternalContextCreator,
  ModulesContainer,
} from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Module } from '@nestjs/core/injector/module.js';
import { type Finding, LoopEventSink } from '@toolloop/protocol';
import { ToolSource } from '../../contracts/source.js';
import { type Tool, type ToolLayers } from '../../contracts/tool.js';
import { ToolInterceptor } from '../../contracts/interceptor.js';
import type { ToolCallContext } from '../../contracts/tool-call.js';
import { isCallable, RawTool } from '../decorators/raw-tool.js';
import {
  hasDecoratedMembers,
  providerOptionsOf,
  type ToolMethod,
  toolMethodsOf,
} from '../decorators/tool-metadata.js';
import { TOOL_PROVIDER, type ToolProviderOptions } from '../decorators/tool-provider.decorator.js';
import { Logger } from '../../findings/logger.js';
import { inWords } from '../../findings/options.js';
import { ProjectionCompiler } from '../../schema/result-projection.js';
import { SchemaValidators } from '../../schema/validators.js';
import { EntityExplorer } from '../../plugins/entities/entity-explorer.js';
import { EntityRegistry, findResolvers } from '../../plugins/entities/entity-registry.js';
import { enhancerFindings, entityOfHost, sourceEnhancerFindings } from '../nest/enhancers.js';
import { lostMetadataFindings } from '../nest/lost-metadata.js';
import { MethodLayers, NestLayerCompiler } from '../nest/nest-layers.js';
import { contributedMethodOf, rawMethodOf } from '../nest/raw-layers.js';
import { isRouteHandler } from '../nest/route-input.js';
import { type CompiledRoute, RouteCompiler } from '../nest/route-layers.js';
import { classesOfProvider, classOfProvider, isClass } from '../nest/provider-classes.js';
import { isSingleton, isThere, ProviderInstances } from '../nest/provider-instances.js';
import { providerWarnings, standInFindings } from '../nest/provider-warnings.js';
import { type PlacedProvider, repeatedRawFinding, withoutRepeated } from './repeated-providers.js';
import { isNotOmitted, namespaceIn, wordFindings } from './words-of-modules.js';
import { ScopedEnhancers } from '../nest/scoped-enhancers.js';
import { modulesWith, ToolFeature } from './tool-feature.js';
import type { InstalledPlugin } from '../../plugin/installed-plugin.js';
import { declarationOf } from '../../plugin/tool-loop-plugin.decorator.js';
import { findPlugins } from './plugin-discovery.js';
import { misplacedFindings, SAFE_TOOL_ID } from './tool-names.js';
import { methodsAskedOf } from './tool-hooks.js';
import {
  boundTool,
  type DeclarationRules,
  placeOf,
  type RawCall,
  type ToolTemplate,
  ToolTemplateCompiler,
} from './tool-template.js';

/**
 * Finds the tools of every module's providers, request-scoped ones included, and the entities their
 * results lead to.
 */
@Injectable()
export class ToolExplorer {
  private readonly instances: ProviderInstances;
  private readonly scoped: ScopedEnhancers;
  private layers: MethodLayers<ToolLayers | undefined> | undefined;
  private readonly logger = new Logger('ToolLoop');
  private explored: ReadonlySet<Module> = new Set();
  /**
   * The number of modules whose tools the catalog knows, or that were told of; there are more where
   * a module was loaded lazily.
   */
  exploredModules = 0;

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly validators: SchemaValidators,
    creator: ExternalContextCreator,
    private readonly config: ApplicationConfig,
    readonly modules: ModulesContainer,
  ) {
    this.instances = new ProviderInstances(creator);
    this.scoped = new ScopedEnhancers(config);
  }

  /**
   * `raw` are the tools of `forRoot` and those that were registered; those of features are found
   * among the providers.
   */
  explore(rules: DeclarationRules, raw: readonly RawTool[] = []): Exploration {
    const compilers = this.createCompilers(rules);
    const found = this.providers();
    const { providers, findings: repeated } = withoutRepeated(found.filter(isNotOmitted));
    const features = this.instancesOf(ToolFeature).map((feature) =>
      modulesWith(feature, this.modules.values()),
    );
    const declared = [
      ...providers.map((provider) => this.toolsOf(provider, compilers)),
      ...[...raw.map((tool) => ({ tool })), ...listContributed(features)].map((one) =>
        this.rawToolOf(one, compilers),
      ),
    ];
    const returned = declared.flatMap((one) => one.returned);
    const sources = this.instancesOf(ToolSource);
    const entities = this.exploreEntities(features, returned, compilers);
    this.unexplored();
    return {
      tools: declared.flatMap((one) => one.tools),
      entities: entities.registry,
      sources,
      warnings: providerWarnings(this.discovery.getProviders(), declaresTools),
      findings: [
        ...repeated,
        ...wordFindings(this.modules.values(), found),
        ...declared.flatMap((one) => one.findings),
        ...entities.findings,
        ...sharedNames(entities.registry, providers),
        ...compilers.routes.findings(),
        ...sources.flatMap(sourceEnhancerFindings),
        ...this.unheard(),
      ],
    };
  }

  /**
   * Creates the compilers of one exploration. Its layers stay, for tools that are declared
   * elsewhere.
   */
  private createCompilers(rules: DeclarationRules): Compilers {
    const nest = new NestLayerCompiler(
      this.modules,
      this.config,
      this.scoped,
      rules.interceptors?.except,
    );
    this.layers = new MethodLayers(nest, this.instances, this.scoped);
    return {
      compiler: new ToolTemplateCompiler(new ProjectionCompiler(), rules, this.validators),
      routes: new RouteCompiler(this.modules, this.config, rules, this.scoped),
      layers: this.layers,
    };
  }

  /** Finds the entities that features name, that have a resolver, or that tools return. */
  private exploreEntities(
    features: readonly PlacedFeature[],
    returned: readonly Type[],
    { compiler, layers }: Compilers,
  ): FoundEntities {
    const { lookups, findings } = findResolvers(this.discovery.getProviders(), this.instances);
    const own = features.flatMap(({ options, modules }) =>
      (options.entities ?? []).map((type) => [type, modules] as const),
    );
    const container = { layers, hosts: this.entityHosts(), lookups, modules: own };
    const named = [...own.map(([type]) => type), ...lookups.keys()];
    const entities = new EntityExplorer(compiler, container).explore(named, returned);
    return { registry: entities.registry, findings: [...findings, ...entities.findings] };
  }

  /**
   * A tool that is declared elsewhere, within the global guards, pipes, interceptors and filters of
   * the application.
   */
  guarded(tool: Tool): Tool {
    const layers = this.layers?.of(
      contributedMethodOf(tool.spec.declaredId, tool.interceptors?.except),
    );
    return { ...tool, ...(layers && { layers }) };
  }

  /**
   * Logs, once, the tools of modules that were loaded lazily: the catalog is fixed when the
   * application has started. Called when a run opens.
   */
  warnOfLateModules(): void {
    const late = this.unexplored();
    const providers = this.providers().filter(
      ({ wrapper }) => wrapper.host && late.includes(wrapper.host),
    );
    const features = late.flatMap((module) =>
      [...module.providers.values()].filter(({ instance }) => instance instanceof ToolFeature),
    );
    const names = new Set([
      ...providers.map(({ type }) => type.name),
      ...(features.length > 0 ? ['ToolLoopModule.forFeature'] : []),
    ]);
    for (const name of names)
      this.logger.warn(
        `${name}: Its module was loaded after the application had started, so its tools are not in the catalog. Import the module where the application starts.`,
      );
  }

  /** The modules that were not there when it was last called. */
  private unexplored(): readonly Module[] {
    const { explored } = this;
    this.explored = new Set(this.modules.values());
    this.exploredModules = this.explored.size;
    return [...this.explored].filter((module) => !explored.has(module));
  }

  /**
   * Every provider that is an instance of a class, in the order of the modules. Singletons only:
   * there is no request to make others for.
   */
  instancesOf<Instance>(type: abstract new (...args: never[]) => Instance): Instance[] {
    const found = this.discovery.getProviders().flatMap((wrapper) => {
      const instance: unknown =
        wrapper.isAlias || !isSingleton(wrapper) ? undefined : wrapper.instance;
      return instance instanceof type ? [instance] : [];
    });
    return [...new Set(found)];
  }

  /** Returns the plugins of every module. */
  plugins(): readonly InstalledPlugin[] {
    return findPlugins(this.discovery.getProviders());
  }

  /** Returns ports that are no singletons: they would never be used. */
  private unheard(): Finding[] {
    return this.discovery.getProviders().flatMap(portFindings);
  }

  /** The stand-ins of the entity classes that features name. */
  private entityHosts(): ReadonlyMap<Type, InstanceWrapper<object>> {
    const hosts = new Map<Type, InstanceWrapper<object>>();
    this.discovery.getProviders().forEach((wrapper: InstanceWrapper<object>) => {
      const entity = wrapper.metatype ? entityOfHost(wrapper.metatype) : undefined;
      if (entity && !hosts.has(entity)) hosts.set(entity, wrapper);
    });
    return hosts;
  }

  private providers(): Provider[] {
    const providers = this.discovery.getProviders().flatMap((wrapper: InstanceWrapper<object>) => {
      const type =
        wrapper.isAlias || !isThere(wrapper)
          ? undefined
          : classesOfProvider(wrapper).find(declaresTools);
      return type ? [{ type, wrapper, namespace: namespaceIn(type, wrapper) }] : [];
    });
    const controllers = this.discovery
      .getControllers()
      .flatMap((wrapper: InstanceWrapper<object>) => {
        const { metatype: type } = wrapper;
        return isClass(type) && declaresTools(type)
          ? [{ type, wrapper, namespace: namespaceIn(type, wrapper), isController: true }]
          : [];
      });
    return [...providers, ...controllers];
  }

  private toolsOf(provider: Provider, { compiler, routes, layers }: Compilers): FoundTools {
    const { type, wrapper, namespace } = provider;
    const options = optionsOf(provider);
    const methods = toolMethodsOf(type);
    const findings = [
      ...misplacedFindings(type),
      ...providerFindings(provider, methods),
      ...TOOL_PROVIDER.findings(options ?? {}, type.name),
    ];
    if (!options) return { tools: [], returned: [], findings };
    const tools: ServiceTool[] = [];
    const returned: Type[] = [];
    for (const method of methods) {
      const at = placeOf({ type, method });
      const declaredId = `${namespace}__${method.options?.name ?? method.property}`;
      const startedAt = performance.now();
      const route = provider.isController
        ? { route: routes.compile({ type, method, wrapper }, this.instances) }
        : {};
      const compiled = compiler.compile({ type, method, declaredId, ...route });
      findings.push(
        ...compiled.findings,
        ...idFindings(at, declaredId),
        ...enhancerFindings({ type, method, wrapper }),
        ...lostMetadataFindings(type, method),
      );
      findings.push(...standInFindings(at, type, wrapper, methodsAskedOf(method)));
      if (compiled.returns) returned.push(compiled.returns.type);
      if (compiled.template) {
        const tool = this.toTool(
          wrapper,
          compiled.template,
          layersOf(route.route, () => layers.of({ type, method, wrapper })),
        );
        tools.push({
          type,
          modules: wrapper.host ? [wrapper.host.metatype] : [],
          at,
          tool,
          buildMs: performance.now() - startedAt,
        });
      }
    }
    return { tools, returned, findings };
  }

  private rawToolOf(
    { tool: raw, modules = [] }: ContributedRaw,
    { compiler, layers }: Compilers,
  ): FoundTools {
    if (!(raw instanceof RawTool)) return { tools: [], returned: [], findings: [noRawTool(raw)] };
    const { at, type } = raw;
    const startedAt = performance.now();
    const { execute, wrapper, findings: missing } = this.codeOf(raw);
    const compiled = compiler.compileRaw(raw, execute);
    const layered = { ...rawMethodOf(raw), ...(wrapper && { wrapper, isStandIn: true }) };
    const findings = [
      ...missing,
      ...compiled.findings,
      ...idFindings(at, raw.declaration.id ?? ''),
      ...enhancerFindings(layered),
      ...lostMetadataFindings(type, layered.method),
    ];
    const returned = compiled.returns ? [compiled.returns.type] : [];
    const { template } = compiled;
    if (!template) return { tools: [], returned, findings };
    const tool = { ...boundTool(template, () => NOTHING), layers: layers.of(layered) };
    const { shortName } = type ?? {};
    const named = { ...(type && { type }), ...(typeof shortName === 'string' && { shortName }) };
    return {
      tools: [{ ...named, modules, at, tool, buildMs: performance.now() - startedAt }],
      returned,
      findings,
    };
  }

  private codeOf(raw: RawTool): RawInstance {
    const { source, guardClass } = raw;
    if (!source) return this.provided(raw);
    const [wrapper] = guardClass ? instancesFor(this.discovery.getProviders(), guardClass) : [];
    return { execute: source.execute.bind(source), ...(wrapper && { wrapper }), findings: [] };
  }

  /**
   * The instance that Nest makes of the class of a raw tool; of a request-scoped one, that of the
   * run.
   */
  private provided({ at, type }: RawTool): RawInstance {
    const wrappers = instancesFor(this.discovery.getProviders(), type);
    const [wrapper] = wrappers;
    const repeated = repeatedRawFinding(at, wrappers);
    const say = (problem: string, remedy: string): RawInstance => ({
      execute: () => undefined,
      findings: [{ at, problem, remedy }],
    });
    if (!wrapper)
      return say(
        'It is marked @Injectable(), and no module provides it.',
        'List it in `providers`, or give its instance: rawTool(new …).',
      );
    if (repeated) return { execute: () => undefined, findings: [repeated] };
    if (isSingleton(wrapper) && !isCallable(wrapper.instance))
      return say('It has no method "call", which a raw tool needs.', 'Add one.');
    const execute: RawCall = (input, context) => {
      const found = this.instances.resolve(wrapper, context);
      return found instanceof Promise
        ? found.then((instance) => callOn(instance, input, context))
        : callOn(found, input, context);
    };
    return { execute, wrapper, findings: [] };
  }

  private toTool(
    wrapper: InstanceWrapper<object>,
    template: ToolTemplate,
    layers: CompiledLayers,
  ): Tool {
    return {
      ...boundTool(
        template,
        isSingleton(wrapper)
          ? () => wrapper.instance
          : (run) => this.instances.resolve(wrapper, run),
      ),
      ...layers,
    };
  }
}

/** The tools and findings of the application's declarations. */
export interface Exploration {
  readonly tools: readonly ServiceTool[];
  readonly entities: EntityRegistry;
  readonly sources: readonly ToolSource[];
  readonly findings: readonly Finding[];
  /** Findings that keep nothing from starting. */
  readonly warnings: readonly Finding[];
}

/** A tool of a Nest provider, or a raw one, with the class that selects it. */
export interface ServiceTool {
  readonly type?: Type;
  /** The module classes that contribute it, which select it too. */
  readonly modules: readonly Type[];
  /** A further short name, of a raw tool. */
  readonly shortName?: string;
  readonly tool: Tool;
  /** Class and method, for findings. */
  readonly at: string;
  readonly buildMs: number;
}

interface FoundTools {
  readonly tools: readonly ServiceTool[];
  /** Result classes, of tools with findings too. */
  readonly returned: readonly Type[];
  readonly findings: readonly Finding[];
}

interface Provider extends PlacedProvider {
  /** True for a class whose tools are routes. */
  readonly isController?: boolean;
}

interface ContributedRaw {
  readonly tool: RawTool;
  readonly modules?: readonly Type[];
}

interface Compilers {
  readonly compiler: ToolTemplateCompiler;
  readonly routes: RouteCompiler;
  readonly layers: MethodLayers<ToolLayers | undefined>;
}

type PlacedFeature = ReturnType<typeof modulesWith>;

interface FoundEntities {
  readonly registry: EntityRegistry;
  readonly findings: readonly Finding[];
}

/** Nest's layers round a tool, and the names of the guards that are not asked. */
type CompiledLayers = Pick<Tool, 'layers' | 'replacedGuards'>;

/**
 * The providers of a class that have an instance each: those under its own token, else those that
 * are made of it.
 */
function instancesFor(
  providers: readonly InstanceWrapper<object>[],
  type: unknown,
): readonly InstanceWrapper<object>[] {
  const own = providers.filter(
    (one) => !one.isAlias && (one.token === type || classOfProvider(one) === type),
  );
  const byToken = own.filter(({ token }) => token === type);
  const found = byToken.length > 0 ? byToken : own;
  const isFirst = (one: InstanceWrapper<object>, index: number): boolean =>
    !isSingleton(one) ||
    found.findIndex((other) => isSingleton(other) && other.instance === one.instance) === index;
  return found.filter(isFirst);
}

/** A route has layers of its own. */
function layersOf(
  route: CompiledRoute | undefined,
  compile: () => NonNullable<Tool['layers']>,
): CompiledLayers {
  if (!route) return { layers: compile() };
  const { layers, replacedGuards } = route;
  return { layers, ...(replacedGuards.length > 0 && { replacedGuards }) };
}

/**
 * Returns the raw tools as a list. A value that is no list becomes one, so that it is reported as
 * no tool.
 */
export function listedRaw(tools: readonly RawTool[] = []): readonly RawTool[] {
  return [tools].flat();
}

/** Lists the raw tools of features, with the modules that select them. */
function listContributed(features: readonly PlacedFeature[]): readonly ContributedRaw[] {
  return features.flatMap(({ options, modules }) =>
    listedRaw(options.tools).map((tool) => ({ tool, modules })),
  );
}

/** The code of a raw tool whose instance Nest makes, or the reasons why there is none. */
interface RawInstance {
  readonly execute: RawCall;
  /** Set for an instance that Nest makes. */
  readonly wrapper?: InstanceWrapper<object>;
  readonly findings: readonly Finding[];
}

/**
 * @throws TypeError for an instance without a method `call`, which a factory that runs in a request
 *   may make
 */
function callOn(instance: object, input: unknown, context: ToolCallContext): unknown {
  if (isCallable(instance)) return instance.call(input, context);
  throw new TypeError(`${instance.constructor.name} has no method "call", which a raw tool needs.`);
}

function noRawTool(given: unknown): Finding {
  const remedy =
    'Give a list of what tool(), rawTool() and subRunTool() make. Classes marked @ToolProvider() belong into `providers`.';
  return { at: 'tools', problem: `There is ${inWords(given)} among them.`, remedy };
}

/** The target of a raw tool, which brings what it needs. */
const NOTHING = Object.freeze({});

function declaresTools(type: Type): boolean {
  return providerOptionsOf(type) !== undefined || hasDecoratedMembers(type);
}

function providerFindings(
  { type, isController }: Provider,
  methods: readonly ToolMethod[],
): Finding[] {
  const options = providerOptionsOf(type);
  if (isController)
    return methods
      .filter((method) => !isRouteHandler({ type, method }))
      .map((method) => noRoute(placeOf({ type, method })));
  if (!options)
    return [
      {
        at: type.name,
        problem: 'It has @LlmTool() methods and is not a provider of tools.',
        remedy: 'Mark the class @ToolProvider().',
      },
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
        remedy:
          'A Nest provider has a namespace: @ToolProvider({ namespace }). A prefix is for entities, which are not in `providers`.',
      },
    ];
  return [];
}

/** The options of a class with tools; a controller needs no @ToolProvider(). */
function optionsOf({ type, isController }: Provider): ToolProviderOptions | undefined {
  return providerOptionsOf(type) ?? (isController ? {} : undefined);
}

function noRoute(at: string): Finding {
  const problem = 'It is a method of a controller, and answers no route.';
  return {
    at,
    problem,
    remedy:
      'Move it to a class of its own that is in `providers`, or mark it @Get(), @Post() or the like.',
  };
}

function idFindings(at: string, id: string): Finding[] {
  if (SAFE_TOOL_ID.test(id)) return [];
  return [
    {
      at,
      problem: `"${id}" is not a tool id that every model provider accepts.`,
      remedy:
        'Use letters, digits, - and _, 64 characters at most: @ToolProvider({ namespace }), @LlmTool({ name }).',
    },
  ];
}

function sharedNames(entities: EntityRegistry, providers: readonly Provider[]): Finding[] {
  const namespaces = new Map(providers.map(({ type, namespace }) => [namespace, type]));
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

/**
 * Ports of which every provider is asked: an interceptor that is left out without a word would be a
 * hole.
 */
const PORTS = { ToolSource, ToolInterceptor, LoopEventSink };

/** A port that is made per request, or anew for everybody, would never be asked. */
export function portFindings(wrapper: InstanceWrapper): Finding[] {
  const { metatype } = wrapper;
  if (isSingleton(wrapper) || !isClass(metatype)) return [];
  const ports = Object.entries(PORTS).filter(([, port]) => metatype.prototype instanceof port);
  const names = [...ports.map(([name]) => name), ...(declarationOf(metatype) ? ['plugin'] : [])];
  return names.map((name) => ({
    at: metatype.name,
    problem: `It is a ${name}, which the loop uses outside of any request, but it is not a singleton.`,
    remedy:
      'Remove its scope, and that of its dependencies; read the actor from the context of the call.',
  }));
}
