import {
  type DynamicModule,
  type FactoryProvider,
  type INestApplicationContext,
  Injectable,
  Module,
  type ModuleMetadata,
  type OnApplicationBootstrap,
  type OnModuleInit,
  Optional,
  type Provider,
  type Type,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, ModuleRef } from '@nestjs/core';
import {
  ConfigurationError,
  type EntityContext,
  EntityResolver,
  type Finding,
  type RawTool,
  ToolEntityResolver,
} from '@toolloop/core';
import { ToolRegistry } from '@toolloop/core/catalog';
import {
  guardedAs,
  hasEnhancers,
  Logger,
  providerOptionsOf,
  toolMethodsOf,
} from '@toolloop/core/internal';
import { ToolLoopStores } from '@toolloop/core/stores';
import { all, fromKept, where } from './filter.js';
import { readTool } from './read-action.js';
import { accessTo, EntityShapes, RefusedError, type Resource } from './resource.js';
import { resourceFindings, tenantWarnings } from './resource-findings.js';
import { type Condition } from './resource-query.js';
import { type EntityModel } from './entity-model.js';
import { ResourceGateway } from './resource-gateway.js';
import type { ResourcePolicy } from './resource-policy.js';
import { SqlResourceGateway } from './sql-gateway.js';
import {
  type ActionName,
  actionsOf,
  type ResourceDeclaration,
  resourceOf,
} from './tool-resource.decorator.js';
import { writeTool } from './write-action.js';

/** The options of `ResourceToolsModule.forRoot()`. */
export interface ResourceToolsOptions {
  /** The provider of the gateway, such as `mikroOrmGateway()`. */
  readonly gateway: FactoryProvider<ResourceGateway>;
  /** Modules that the gateway needs. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
}

const logger = new Logger('Resources');

/** The options of one `forFeature` beside its resources. */
export interface ResourceFeatureOptions {
  /** Modules that the resources and their policies need. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** Policies of the resources, and what the resources need. */
  readonly providers?: readonly Provider[];
}

/** The resources of one `forFeature`; found among the providers when the application starts. */
class ResourceFeature {
  constructor(readonly types: readonly Type[]) {}
}

/**
 * Makes tools of the resources of all features when the application starts, and refuses to start
 * where a tenant would not be safe.
 */
@Injectable()
export class ResourceRegistrar implements OnModuleInit, OnApplicationBootstrap {
  private readonly shapes: EntityShapes;
  private readonly resources = new Map<Type, Resource>();

  constructor(
    private readonly gateway: ResourceGateway,
    private readonly registry: ToolRegistry,
    private readonly discovery: DiscoveryService,
    private readonly modules: ModuleRef,
    @Optional() private readonly stores?: ToolLoopStores,
  ) {
    this.shapes = new EntityShapes(gateway, (entity) => this.acceptedOf(entity));
  }

  /** @throws {ConfigurationError} With what is wrong in the declarations of all resources. */
  onModuleInit(): void {
    const types = [...new Set(this.features().flatMap((feature) => feature.types))];
    const found = types.map((type) => this.resourceOf(type));
    const findings = [...found.flatMap((one) => one.findings), ...policyFindings(found)];
    if (findings.length > 0) throw new ConfigurationError(findings);
    for (const { type, resource, policy } of found) {
      if (!resource) continue;
      for (const warning of tenantWarnings(resource.declaration, resource.shape))
        logger.warn(warning);
      const { entity } = resource.shape.model;
      if (policy) this.shapes.govern(entity, policy);
      this.resources.set(entity, resource);
      this.registry.register(...this.toolsOf(resource).map((tool) => guardedAs(type, tool)));
    }
    this.shapes.labelFields();
  }

  /**
   * @throws {ConfigurationError} With what keeps tenants from being safe in the database as it is
   *   now, when its migrations have run.
   */
  async onApplicationBootstrap(): Promise<void> {
    const findings = await this.gateway.findings(this.tenantModels(), this.sharedModels());
    if (findings.length > 0) throw new ConfigurationError(findings);
  }

  /**
   * Finds the instance of an entity tool again, in the tenant of the run, if the actor may read it.
   */
  async find(
    entity: Type,
    property: string,
    id: string,
    context: EntityContext,
  ): Promise<object | undefined> {
    const resource = this.resources.get(entity);
    if (!resource) return undefined;
    const { model } = resource.shape;
    const field = model.fields.get(property);
    const value = field && fromKept(field, id);
    if (value === undefined) return undefined;
    const rows = await readableRows(resource, context);
    if (!rows) return undefined;
    const query = {
      where: all([rows, where(property, 'eq', value)]),
      order: [],
      limit: 1,
      offset: 0,
    };
    const [row] = await this.gateway.read(context, (session) => session.find(model, query));
    return row;
  }

  private features(): readonly ResourceFeature[] {
    return this.discovery
      .getProviders()
      .flatMap(({ instance }: { readonly instance: unknown }) =>
        instance instanceof ResourceFeature ? [instance] : [],
      );
  }

  private resourceOf(type: Type): FoundResource {
    const declaration = resourceOf(type);
    if (!declaration) {
      const remedy = 'Mark it @ToolResource(Entity, { namespace, actions }).';
      return {
        type,
        findings: [{ at: type.name, problem: 'It is given as a resource and is none.', remedy }],
      };
    }
    const { findings, shape } = resourceFindings(type, declaration, this.shapes);
    const { policy: policyType } = declaration;
    const policy = policyType && this.policyOf(policyType);
    if (policyType && !policy)
      findings.push({
        at: type.name,
        problem: `Its policy ${policyType.name} is no provider.`,
        remedy:
          'List it in the providers of a module: ResourceToolsModule.forFeature([…], { providers }).',
      });
    return {
      type,
      findings,
      ...(policy && { policy }),
      ...(shape && { resource: { declaration, shape, shapes: this.shapes } }),
    };
  }

  private policyOf(type: Type<ResourcePolicy>): ResourcePolicy | undefined {
    try {
      return this.modules.get(type, { strict: false });
    } catch {
      return undefined;
    }
  }

  private toolsOf(resource: Resource): readonly RawTool[] {
    const isIdempotent = this.stores?.transactions !== undefined && this.gateway.joinsCalls;
    const make: Readonly<Record<ActionName, (options: object) => RawTool>> = {
      read: (options) => readTool(resource, options, this.gateway),
      create: (options) =>
        writeTool(resource, { action: 'create', options, gateway: this.gateway, isIdempotent }),
      update: (options) =>
        writeTool(resource, { action: 'update', options, gateway: this.gateway, isIdempotent }),
      destroy: (options) =>
        writeTool(resource, { action: 'destroy', options, gateway: this.gateway, isIdempotent }),
    };
    return [...actionsOf(resource.declaration)].map(([name, options]) => make[name](options));
  }

  /**
   * The entities whose rows are a tenant's: those of resources, and those that their relations lead
   * to. Known before the start, which waits for their tables to be protected.
   */
  tenantModels(): readonly EntityModel[] {
    const declared = this.declarations();
    const shared = new Set(this.sharedModels().map(({ entity }) => entity));
    const models = new Set<EntityModel>();
    for (const { entity } of declared) {
      const shape = this.shapes.find(entity);
      if (!shape) continue;
      models.add(shape.model);
      const targets = [...shape.relations.values()].flatMap(
        ({ target }) => this.shapes.find(target)?.model ?? [],
      );
      for (const target of targets) models.add(target);
    }
    return [...models].filter(({ entity }) => !shared.has(entity));
  }

  /** The entities whose rows are those of all tenants. */
  sharedModels(): readonly EntityModel[] {
    const shared = this.declarations().filter(({ shared: isShared }) => isShared);
    return [...new Set(shared.flatMap(({ entity }) => this.shapes.find(entity)?.model ?? []))];
  }

  /** The fields that some resource of an entity lets a model write by name. */
  private acceptedOf(entity: Type): ReadonlySet<string> {
    const own = this.declarations().filter((declaration) => declaration.entity === entity);
    const accepted = new Set<string>();
    for (const declaration of own)
      for (const { accept = [] } of actionsOf(declaration).values())
        for (const name of accept) accepted.add(name);
    return accepted;
  }

  private declarations(): readonly ResourceDeclaration[] {
    return this.features().flatMap(({ types }) => types.flatMap((type) => resourceOf(type) ?? []));
  }
}

/**
 * Returns the migration that protects the tables of all resources of an application, as SQL: the
 * role in which tools work, row level security and its policies. It can be run again, and is for
 * the application's own migrations. The application need not have started, which it does not before
 * the migration has run.
 *
 * @throws {ConfigurationError} Where the database has no row level security, or the gateway no
 *   role.
 * @example
 * const app = await NestFactory.create(AppModule); // not app.init()
 * process.stdout.write(rowSecurityMigration(app));
 * await app.close();
 */
export function rowSecurityMigration(app: Pick<INestApplicationContext, 'get'>): string {
  const gateway: ResourceGateway = app.get(ResourceGateway);
  const registrar = app.get(ResourceRegistrar);
  const [entities = [], shared] = [registrar.tenantModels(), registrar.sharedModels()].map(
    (models) => models.map(({ entity }) => entity),
  );
  const statements =
    gateway instanceof SqlResourceGateway ? gateway.statements(entities, shared) : [];
  if (statements.length === 0) throw new ConfigurationError([WITHOUT_ROW_SECURITY]);
  return statements.map((statement) => `${statement};\n`).join('');
}

const WITHOUT_ROW_SECURITY: Finding = {
  at: 'ResourceToolsModule',
  problem:
    'There is no row level security to be set up: the database has none, or its gateway has no role.',
  remedy:
    'On PostgreSQL and PGlite give the role in which statements run: { tenancy: { role } }. On MariaDB and MySQL nothing has to be migrated.',
};

/** The rows that the actor of a run may read; undefined for none at all. */
async function readableRows(
  resource: Resource,
  context: EntityContext,
): Promise<Condition | undefined> {
  try {
    const { rows } = await accessTo(resource, context);
    return rows;
  } catch (error) {
    if (error instanceof RefusedError) return undefined;
    throw error;
  }
}

/** A policy governs an entity: of two, the rules of one would hold nowhere. */
function policyFindings(found: readonly FoundResource[]): Finding[] {
  const governed = found.filter(({ resource, policy }) => resource && policy);
  return governed.flatMap(({ resource, policy }, index) => {
    const entity = resource?.shape.model.entity;
    const earlier = governed
      .slice(0, index)
      .find((one) => one.resource?.shape.model.entity === entity && one.policy !== policy);
    if (!entity || !earlier) return [];
    const [one, other] = [earlier.policy?.constructor.name, policy?.constructor.name];
    return [
      {
        at: entity.name,
        problem: `Its resources have two policies, ${one} and ${other}, of which one alone would hold.`,
        remedy: 'Name one policy: it holds for every resource of the entity.',
      },
    ];
  });
}

interface FoundResource {
  readonly type: Type;
  readonly findings: readonly Finding[];
  readonly resource?: Resource;
  readonly policy?: ResourcePolicy;
}

/**
 * Entities of a database as tools: `forRoot` once, with the gateway to the ORM; `forFeature`
 * wherever resources live.
 */
@Module({})
export class ResourceToolsModule {
  /** Binds the gateway for the whole application. */
  static forRoot({ gateway, imports = [] }: ResourceToolsOptions): DynamicModule {
    const port: Provider = { provide: ResourceGateway, useExisting: gateway.provide };
    return {
      module: ResourceToolsModule,
      global: true,
      imports: [DiscoveryModule, ...imports],
      providers: [gateway, port, ResourceRegistrar],
      exports: [gateway, port, ResourceRegistrar],
    };
  }

  /**
   * Makes tools of classes marked `@ToolResource()`.
   *
   * @example
   * ResourceToolsModule.forFeature([OrderTools, CustomerTools], { providers: [OrderPolicy] });
   */
  static forFeature(
    types: readonly Type[],
    { imports = [], providers = [] }: ResourceFeatureOptions = {},
  ): DynamicModule {
    const own = types.filter((type) => toolMethodsOf(type).length > 0 || hasEnhancers(type));
    return {
      module: ResourceFeatureModule,
      imports: [...imports],
      providers: [
        ...own,
        ...providers,
        ...types.flatMap(resolverOf),
        { provide: Symbol('toolloop:resources'), useValue: new ResourceFeature(types) },
      ],
      exports: own,
    };
  }
}

/** Carries what one `forFeature` contributes. */
@Module({})
class ResourceFeatureModule {}

/** Makes the resolver of an entity that has tools of its own. */
function resolverOf(type: Type): Type[] {
  const declaration = resourceOf(type);
  const entity: Type<object> | undefined = declaration?.entity;
  const options = entity && providerOptionsOf(entity);
  const { instanceIdProperty: property = 'id' } = options ?? {};
  if (!entity || !options || declaration?.resolver === false || typeof property !== 'string')
    return [];
  class ResourceResolver extends EntityResolver<object> {
    constructor(private readonly registrar: ResourceRegistrar) {
      super();
    }

    override resolve(id: string, context: EntityContext): Promise<object | undefined> {
      return this.registrar.find(entity ?? ResourceResolver, String(property), id, context);
    }
  }
  Reflect.defineMetadata('design:paramtypes', [ResourceRegistrar], ResourceResolver);
  Injectable()(ResourceResolver);
  ToolEntityResolver(entity)(ResourceResolver);
  return [ResourceResolver];
}
