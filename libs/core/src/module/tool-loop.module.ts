import {
  ConfigurableModuleBuilder,
  Module,
  type DynamicModule,
  type FactoryProvider,
  type InjectionToken,
  type ModuleMetadata,
  type Provider,
  type Type,
} from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { duplicatesOf, registerCopy } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { ToolRegistry } from '../catalog/tool-registry.js';
import { toolMethodsOf } from '../tools/decorators/tool-metadata.js';
import { hostClassOf } from '../tools/nest/enhancers.js';
import { ToolExplorer } from '../tools/discovery/tool-explorer.js';
import { ToolFeature, type ToolFeatureOptions } from '../tools/discovery/tool-feature.js';
import { PendingNotices } from '../plugins/inbox/pending-notices.js';
import { PendingService } from '../plugins/inbox/pending.service.js';
import { AUDIT } from '../plugins/audit/audit-options.js';
import { PendingAudit } from '../plugins/audit/pending-audit.js';
import { AuditTrail } from '../plugins/audit/audit-trail.js';
import { Operators } from '../plugins/operators/operators.js';
import { MemoryAccountStore } from '../memory/memory-account-store.js';
import { MemoryPendingStore } from '../memory/memory-pending-store.js';
import { MemoryAuditStore } from '../memory/memory-audit-store.js';
import { MemoryConversationStore } from '../memory/memory-conversation-store.js';
import { BoundedStores } from '../call/bounded-stores.js';
import { CallContextFactory } from '../call/call-context.js';
import { ToolCallStorage } from '../call/call-storage.js';
import { Effects } from '../call/outcome.js';
import { ExecutionRules } from '../call/execution-rules.js';
import { Plugins } from '../plugin/plugins.js';
import { CallAudit } from '../plugins/audit/call-audit.js';
import { Callbacks } from '../plugins/callbacks/callbacks.js';
import { Repetition } from '../plugins/repetition/repetition.js';
import { ToolRunner } from '../call/tool-runner.js';
import { DirectiveEffects } from '../plugins/directives/directive-effects.js';
import { MemoryCallJournal } from '../memory/memory-call-journal.js';
import { ToolProviderExtractor } from '../plugins/entities/entity-extraction.js';
import { ConversationService } from '../plugins/conversations/conversation.service.js';
import { DirectiveRunner } from '../plugins/directives/directive-runner.js';
import { DirectiveService } from '../plugins/directives/directive.service.js';
import { MemoryPolicyStore } from '../memory/memory-policy-store.js';
import { MemoryRunLog } from '../memory/memory-run-log.js';
import { MemoryUsageStore } from '../memory/memory-usage-store.js';
import { MemoryDirectiveStore } from '../memory/memory-directive-store.js';
import { toolLoopToken, ToolLoopService } from './tool-loop.service.js';
import { LoopSettings } from '../run/loop-settings.js';
import { RunOpener } from '../run/run-opener.js';
import { RunPreparation } from '../run/run-preparation.js';
import { SubRunPreparation } from '../plugins/sub-runs/sub-run-preparation.js';
import { SuspendedRuns } from '../run/suspended-runs.js';
import { ToolLoop } from '../loop/tool-loop.js';
import { type ToolLoopOptions, TOOL_LOOP_OPTIONS } from '../run/loop-options.js';
import { Explanations } from '../plugins/operators/explanations.js';
import { Sessions } from '../plugins/sessions/sessions.js';
import { EndorsementService } from '../plugins/flow/endorsement.service.js';
import { PolicyService } from '../plugins/operators/policy.service.js';
import { RehearsalService } from '../plugins/rehearsals/rehearsal.service.js';
import { RunService } from '../runs/run.service.js';
import { UsageLedger } from '../plugins/usage/usage-ledger.js';
import { QuotaStanding } from '../plugins/usage/quota-standing.js';
import { UsageMeter } from '../plugins/usage/usage-meter.js';
import { UsageService } from '../plugins/usage/usage.service.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { DataPolicyEngine } from '../policy/policy-engine.js';
import { PendingStore } from '../contracts/pending.js';
import { PendingWitness } from '../contracts/pending-witness.js';
import { AuditStore } from '../contracts/audit.js';
import { CallJournal } from '../contracts/call-journal.js';
import { RunLog } from '../contracts/run-log.js';
import { ToolLoopStores } from '../contracts/stores.js';
import { ConversationStore } from '../contracts/conversation.js';
import { DirectiveStore } from '../contracts/directive.js';
import type { LoopProfile } from '../contracts/loop-request.js';
import { AccountStore } from '../contracts/account.js';
import { TenantDirectory } from '../contracts/tenant-directory.js';
import { PolicyEngine, policyList } from '../contracts/policy.js';
import { PolicyStore } from '../contracts/policy-store.js';
import { UsageStore } from '../contracts/usage.js';
import { ToolSources } from '../plugins/sources/tool-sources.js';
import { SchemaValidators } from '../schema/validators.js';
import { ToolLoopBootstrap } from './tool-loop-bootstrap.js';

registerCopy('@toolloop/core', import.meta.url);
// Said at once: Nest may fail before the application starts, because a service of the one copy is
// not that of the other.
const duplicates = duplicatesOf('@toolloop/core');
if (duplicates !== undefined) process.emitWarning(duplicates, { code: 'TOOLLOOP_DUPLICATE' });

/** The options of `forRoot` for the module itself. */
export interface ToolLoopExtras {
  /**
   * Adapters of ports: `{ provide: ConversationStore, useClass: … }`, a `ConnectionBroker`, a
   * `CallJournal`, event sinks, interceptors.
   */
  readonly providers?: readonly Provider[];
  /** Modules those providers need. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
}

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<ToolLoopOptions>({
  optionsInjectionToken: TOOL_LOOP_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras<ToolLoopExtras>({}, (definition, { providers = [], imports = [] }) => ({
    ...definition,
    global: true,
    imports: [...(definition.imports ?? []), ...imports],
    // The application's own come last, so that they replace ours.
    providers: [...(definition.providers ?? []), ...OWN_PROVIDERS, ...providers],
  }))
  .build();

type InStores = Partial<Omit<ToolLoopStores, 'transactions'>>;

type StoreBinding = readonly [port: InjectionToken, adapter: (stores: InStores) => unknown];

/**
 * The ports of stores, each with its adapter: of the stores that a global module exports, else in
 * memory.
 */
const STORES = {
  accounts: [AccountStore, (stores) => stores.accounts ?? new MemoryAccountStore()],
  audit: [AuditStore, (stores) => stores.audit ?? new MemoryAuditStore()],
  conversations: [
    ConversationStore,
    (stores) => stores.conversations ?? new MemoryConversationStore(),
  ],
  directives: [DirectiveStore, (stores) => stores.directives ?? new MemoryDirectiveStore()],
  journal: [CallJournal, (stores) => stores.journal ?? new MemoryCallJournal()],
  pending: [PendingStore, (stores) => stores.pending ?? new MemoryPendingStore()],
  policies: [PolicyStore, (stores) => stores.policies ?? new MemoryPolicyStore()],
  runs: [RunLog, (stores) => stores.runs ?? new MemoryRunLog()],
  usage: [UsageStore, (stores) => stores.usage ?? new MemoryUsageStore()],
} satisfies Readonly<Record<keyof InStores, StoreBinding>>;

type InjectedStores = [
  AccountStore,
  AuditStore,
  ConversationStore,
  DirectiveStore,
  CallJournal,
  PendingStore,
  PolicyStore,
  RunLog,
  UsageStore,
  ToolLoopStores?,
  TenantDirectory?,
];

/** All of them behind one provider. A port that is missing here does not compile. */
const BOUNDED_STORES: FactoryProvider<BoundedStores> = {
  provide: BoundedStores,
  inject: [
    ...Object.values(STORES).map(([port]) => port),
    { token: ToolLoopStores, optional: true },
    { token: TenantDirectory, optional: true },
  ],
  useFactory: (
    ...[
      accounts,
      audit,
      conversations,
      directives,
      journal,
      pending,
      policies,
      runs,
      usage,
      stores,
      tenants,
    ]: InjectedStores
  ) =>
    new BoundedStores({
      accounts,
      audit,
      conversations,
      directives,
      journal,
      pending,
      policies,
      runs,
      usage,
      transactions: stores?.transactions,
      tenants,
    }),
};

const OWN_PROVIDERS: readonly Provider[] = [
  ...Object.values(STORES).map(storeProvider),
  BOUNDED_STORES,
  SchemaValidators,
  ToolExplorer,
  ToolRegistry,
  ToolCatalog,
  CallContextFactory,
  ToolCallStorage,
  Plugins,
  Callbacks,
  CallAudit,
  Repetition,
  ToolRunner,
  ToolProviderExtractor,
  UsageLedger,
  UsageMeter,
  QuotaStanding,
  UsageService,
  LoopSettings,
  ToolLoop,
  ConversationService,
  SuspendedRuns,
  RunPreparation,
  SubRunPreparation,
  RunOpener,
  RunService,
  RehearsalService,
  Explanations,
  PolicyService,
  EndorsementService,
  Sessions,
  DirectiveRunner,
  DirectiveService,
  ToolSources,
  ToolLoopBootstrap,
  loopProvider(ToolLoopService, {}),
  {
    provide: ExecutionRules,
    inject: [TOOL_LOOP_OPTIONS],
    useFactory: ({ execution }: ToolLoopOptions) => new ExecutionRules(execution),
  },
  { provide: Effects, useClass: DirectiveEffects },
  {
    provide: PendingService,
    inject: [BoundedStores, ActorIdentity, PendingWitness, DataPolicyEngine],
    useFactory: (
      { pending }: BoundedStores,
      identity: ActorIdentity,
      witness: PendingWitness,
      inForce: DataPolicyEngine,
    ) => new PendingService(pending, identity, witness, inForce),
  },
  {
    provide: PendingNotices,
    inject: [BoundedStores, ToolExplorer],
    useFactory: ({ pending }: BoundedStores, explorer: ToolExplorer) =>
      new PendingNotices(pending, explorer),
  },
  {
    provide: Operators,
    inject: [TOOL_LOOP_OPTIONS, ActorIdentity, { token: AuditTrail, optional: true }],
    useFactory: ({ operators }: ToolLoopOptions, identity: ActorIdentity, trail?: AuditTrail) =>
      new Operators(operators, identity, trail),
  },
  {
    provide: ActorIdentity,
    inject: [TOOL_LOOP_OPTIONS],
    useFactory: (options: ToolLoopOptions) => new ActorIdentity(options),
  },
  {
    provide: DataPolicyEngine,
    inject: [TOOL_LOOP_OPTIONS, ToolCatalog, SchemaValidators],
    useFactory: ({ policy }: ToolLoopOptions, catalog: ToolCatalog, validators: SchemaValidators) =>
      new DataPolicyEngine(policyList(policy), catalog, validators),
  },
  { provide: PolicyEngine, useExisting: DataPolicyEngine },
  {
    provide: PendingWitness,
    inject: [{ token: AuditTrail, optional: true }],
    useFactory: (trail?: AuditTrail) => new PendingAudit(trail),
  },
  {
    provide: AuditTrail,
    inject: [TOOL_LOOP_OPTIONS, BoundedStores],
    useFactory: ({ audit }: ToolLoopOptions, stores: BoundedStores) =>
      // What is wrong with the options is a finding, like everything else that is.
      audit && AUDIT.findings(audit, 'audit').length === 0
        ? new AuditTrail(stores.audit, audit, stores.runs)
        : undefined,
  },
];

/**
 * The tool loop of an application. `forRoot` once, with the model, the policy and the limits;
 * `forFeature` wherever entity classes live. Tools of providers are found in every module.
 */
@Module({
  imports: [DiscoveryModule],
  exports: [
    ActorIdentity,
    PendingNotices,
    PendingService,
    AuditTrail,
    ConversationService,
    DataPolicyEngine,
    DirectiveService,
    Operators,
    ToolLoopService,
    BoundedStores,
    RunOpener,
    RunService,
    RehearsalService,
    PolicyService,
    EndorsementService,
    Sessions,
    ToolCatalog,
    ToolRegistry,
    Plugins,
    ToolRunner,
    ToolSources,
    ToolCallStorage,
    SchemaValidators,
    UsageService,
  ],
})
export class ToolLoopModule extends ConfigurableModuleClass {
  /**
   * Names what a feature adds: raw tools, named loops, and the entity classes whose instances bring
   * tools. Classes reached through a tool's `output` need not be named.
   */
  static forFeature(options: ToolFeatureOptions): DynamicModule {
    const loops = Object.entries(options.loops ?? {}).map(([name, profile]) =>
      loopProvider(toolLoopToken(name), profile, name),
    );
    return {
      module: ToolFeatureModule,
      global: true, // so that every module can inject the loops
      imports: [...(options.imports ?? [])],
      providers: [
        { provide: Symbol('toolloop:feature'), useValue: new ToolFeature(options) },
        ...hostsOf(options),
        ...loops,
      ],
      exports: loops.map(({ provide }) => provide),
    };
  }
}

/** Carries what one `forFeature` contributes. */
@Module({})
class ToolFeatureModule {}

function storeProvider([provide, adapter]: StoreBinding): FactoryProvider {
  return {
    provide,
    inject: [{ token: ToolLoopStores, optional: true }],
    useFactory: (stores?: ToolLoopStores) => adapter(stores ?? {}),
  };
}

function loopProvider(
  provide: InjectionToken,
  profile: LoopProfile,
  name?: string,
): FactoryProvider {
  return {
    provide,
    inject: [RunOpener, Sessions],
    useFactory: (runs: RunOpener, sessions: Sessions) =>
      new ToolLoopService(runs, sessions, profile, name),
  };
}

function hostsOf({ entities = [] }: ToolFeatureOptions): Provider[] {
  // An entity may be undefined where modules import each other in a circle; that is a finding at
  // the start.
  const named = entities.filter((entity: Type | undefined) => entity !== undefined);
  return named.map((entity) => ({
    provide: Symbol(`toolloop:host of ${entity.name}`),
    useClass: hostClassOf(
      entity,
      toolMethodsOf(entity).map(({ property }) => property),
    ),
  }));
}
