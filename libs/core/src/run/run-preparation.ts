import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import {
  ConfigurationError,
  InvalidRequestError,
  type LanguageModel,
  type Message,
} from '@toolloop/protocol';
import { BoundedStores } from '../call/bounded-stores.js';
import { canCallOf } from '../call/permission.js';
import { strictlyListed } from '../call/resolve-tool.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import type { Toolset } from '../catalog/toolset.js';
import type { AccountKey } from '../contracts/account.js';
import type { ConversationKey } from '../contracts/conversation.js';
import type { RunBeginning, ToolInjectionStrategy } from '../contracts/injection.js';
import type { Limits } from '../contracts/limits.js';
import { type LoopProfile, type LoopRequest, REQUEST } from '../contracts/loop-request.js';
import type { CallRequest, SessionRequest } from '../contracts/session.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import { asSaid } from '../loop/loop-state.js';
import { stopConditionsOf } from '../loop/stop-conditions.js';
import { checkMessages } from '../models/message-check.js';
import { takesMedia } from '../models/request-fitting.js';
import {
  DeclaredToolAdmission,
  type DeclaredTools,
} from '../plugins/client-tools/declared-tools.js';
import {
  ToolProviderExtractor,
  ToolProviderStrategy,
} from '../plugins/entities/entity-extraction.js';
import { RunEntityHandles } from '../plugins/entities/entity-handles.js';
import { readStoredPolicy } from '../plugins/flow/dropped-levels.js';
import { resumedTools } from '../plugins/injection/saved-tools.js';
import {
  type ListingReason,
  type ListingRules,
  type ListingScope,
  type RunInjection,
  ToolListing,
  type ToolNarrowing,
} from '../plugins/injection/starting-toolset.js';
import { accountMs, type AccountPlace, CallAccount } from '../plugins/sessions/call-account.js';
import { QuotaStanding } from '../plugins/usage/quota-standing.js';
import { Plugins } from '../plugin/plugins.js';
import type { PluginValue } from '../contracts/plugin-value.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { revisionOf } from '../policy/rules.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { LoopSettings } from './loop-settings.js';
import {
  assertCut,
  assertIdentified,
  assertIds,
  assertRequest,
  AT,
  invalid,
  type KnownRun,
} from './request-check.js';
import type { RunPlan } from './run-plan.js';
import type { ResumedRun } from './saved-run.js';

/**
 * Checks a request and turns it into a plan. What cannot be run is refused here, before anything
 * starts.
 */
@Injectable()
export class RunPreparation {
  private readonly listing: ToolListing;
  private readonly entities: ToolProviderStrategy;
  private readonly declared: DeclaredToolAdmission;

  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
    entities: ToolProviderExtractor,
    private readonly identity: ActorIdentity,
    private readonly stores: BoundedStores,
    private readonly quotas: QuotaStanding,
    private readonly plugins: Plugins,
  ) {
    this.entities = new ToolProviderStrategy(entities);
    this.declared = new DeclaredToolAdmission(catalog, settings);
    this.listing = new ToolListing(catalog, (injection) => settings.admit(injection));
  }

  /**
   * Throws `InvalidRequestError` for what the caller sent, `ConfigurationError` for what the
   * application wrote.
   */
  prepare<Output, Actor>(
    own: LoopRequest<Output, Actor>,
    profile: LoopProfile,
    known?: KnownRun,
  ): RunPlan<Output> {
    this.assertRunnable(own, profile, known);
    // What narrows (`policy`, `tools`, `exclude`) and what adds up (`injection`) is combined level
    // by level.
    const request = REQUEST.merge(profile, own);
    const resumed = known?.saved && { ...known, saved: known.saved };
    const levels = [...narrowingsBefore(resumed, [own, profile]), own, profile];
    const run = runOf(request, known);
    const model = this.settings.modelFor(request.model);
    const assumed = resumed?.saved.roles ?? startingRoles(this.strategiesOf(levels));
    const execution = {
      ...this.scopeOf(levels, { ...request, assumed }, run),
      ...this.settings.executionFor(request.execution, model),
    };
    const conversation = this.conversationOf(request, resumed);
    const declared = this.declaredBy(own, profile, resumed);
    const rules = {
      ...this.listingRulesOf(levels, request.surface),
      declared: declared.tools,
      isWithoutModel: isCall(known),
    };
    return {
      model,
      ...this.offerTools(rules, execution, resumed),
      isOneCall: isCall(known),
      account: this.accountOf(own, known, execution),
      ...this.combineCode(request, { own, profile }, run),
      messages: asksNothing(known)
        ? []
        : readMessages({ ...request, messageId: own.messageId }, model, {
            conversation,
            execution,
          }),
      conversation,
      declared,
      execution: {
        ...execution,
        ...(conversation && { conversation: sha256(canonicalDeclaration(conversation)) }),
        requestId: requestIdOf(request, run, resumed),
        ...vouchingOf(known),
      },
      label: (tool) => this.settings.label(tool),
      narrowing: levels.flatMap(({ policy }) => policy ?? []),
      rolesNow: () => this.identity.rolesOf(request.actor),
      assumed,
      answer: request.output && {
        type: request.output,
        ...this.settings.answers.shapeOf(request.output),
      },
      options: { ...request, rehearse: isRehearsal(own, profile, known) },
    };
  }

  private assertRunnable<Actor>(
    own: LoopRequest<unknown, Actor>,
    profile: LoopProfile,
    known?: KnownRun,
  ): void {
    assertIdentified(own);
    assertIds(own);
    assertCut(own);
    assertRequest(own, profile, this.catalog, known);
  }

  /**
   * Lists the tools that the run starts with, or had before it waited, and lets it list them again
   * under another authority.
   */
  private offerTools(
    rules: ListingRules,
    execution: ListingScope,
    resumed: ResumedRun | undefined,
  ): Pick<
    RunPlan,
    'toolset' | 'injection' | 'listedAt' | 'listedUnder' | 'strictListing' | 'relist'
  > {
    const { toolset, injection } = this.listing.list(
      rules,
      execution,
      resumed && beforeWait(resumed),
    );
    return {
      toolset: resumed ? this.resumed(toolset, injection, resumed) : toolset,
      injection,
      listedAt: this.catalog.version,
      listedUnder: revisionOf(execution.policies),
      strictListing: rules.strictListing,
      relist: (authority, records) =>
        this.listing.list(rules, { ...execution, ...authority }, { records }),
    };
  }

  /** Prepares a run of one call. Throws as `prepare` does. */
  prepareCall<Actor>(
    { tool: _tool, args: _args, argsOrigin, vouchedFor, ...request }: CallRequest<Actor>,
    profile: LoopProfile,
  ): RunPlan {
    const limits = request.limits ? { ...WITHOUT_LOOP, ...request.limits } : WITHOUT_LOOP;
    return this.prepare<unknown, Actor>({ ...request, limits }, profile, {
      runId: randomUUID(),
      isOneCall: true,
      argsOrigin,
      vouchedFor,
    });
  }

  /** Prepares a session, as a run of calls that come one by one. Throws as `prepare` does. */
  prepareSession<Actor>(request: SessionRequest<Actor>, profile: LoopProfile): RunPlan {
    const { scope, argsOrigin, readsElsewhere, vouchedFor, ...own } = request;
    const terms: ClientTerms = { scope, argsOrigin, readsElsewhere, vouchedFor };
    const limits = own.limits ? { ...WITHOUT_LOOP, ...own.limits } : WITHOUT_LOOP;
    return this.prepare<unknown, Actor>({ ...own, limits }, profile, {
      runId: randomUUID(),
      isOneCall: true,
      ...terms,
    });
  }

  /** A run that waited keeps what its client had declared. */
  private declaredBy<Output, Actor>(
    own: LoopRequest<Output, Actor>,
    profile: LoopProfile,
    resumed: ResumedRun | undefined,
  ): DeclaredTools {
    return this.declared.admit(
      resumed ? resumed.saved.clientTools : own.declaredTools,
      this.settings.clientToolsOf(profile),
    );
  }

  private placeOf(key: AccountKey): AccountPlace {
    return {
      store: this.stores.accounts,
      key,
      keptMs: accountMs(this.settings.options.sessions?.idleMs),
    };
  }

  /**
   * The account of a session, or of a call that waited in one. A call without a session has none.
   */
  private accountOf<Actor>(
    { labels, tenant }: Pick<LoopRequest<unknown, Actor>, 'labels' | 'tenant'>,
    known: KnownRun | undefined,
    { actorId, policies }: Pick<RunPlan['execution'], 'actorId' | 'policies'>,
  ): CallAccount | undefined {
    const { argsOrigin, readsElsewhere, saved, scope = saved?.scope } = known ?? {};
    if (scope === undefined)
      return isCall(known)
        ? new CallAccount(policies, undefined, undefined, argsOrigin)
        : undefined;
    const placeOf = (owner: string): AccountPlace =>
      this.placeOf({ tenant, actorId: owner, scope });
    if (actorId !== undefined)
      return new CallAccount(policies, placeOf(actorId), labels?.reads, argsOrigin, readsElsewhere);
    throw invalid(
      'An account belongs to an actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
    );
  }

  /** The tools that a run had before it waited. */
  private resumed(
    begun: Toolset,
    injection: RunInjection,
    { saved, processState }: ResumedRun,
  ): Toolset {
    const handles = new RunEntityHandles(saved.handles);
    return resumedTools(begun, { saved: saved.tools, processState }, injection, {
      registry: this.catalog.entities,
      handles,
    });
  }

  /** The tools such a run would start with. */
  async listed<Actor>(request: ListingRequest<Actor>, profile: LoopProfile): Promise<Toolset> {
    assertIdentified(request);
    REQUEST.assert(request, AT, AT);
    const levels = [request, profile];
    const scope = this.scopeOf(
      levels,
      { ...request, assumed: startingRoles(this.strategiesOf(levels)) },
      runOf(request),
    );
    const rules = this.listingRulesOf(levels, request.surface ?? profile.surface);
    const { toolset } = this.listing.list(rules, scope);
    return rules.strictListing ? strictlyListed(toolset, { ...scope, signal: undefined }) : toolset;
  }

  /** Returns a function that explains why such a run would start with a tool, and could call it. */
  async explainer<Actor>(
    request: ListingRequest<Actor>,
    profile: LoopProfile,
  ): Promise<(tool: ExplainableTool) => Promise<ToolExplanation>> {
    const listed = new Set(
      (await this.listed(request, profile)).specs.map(({ declaredId }) => declaredId),
    );
    const levels = [request, profile];
    const rules = this.listingRulesOf(levels);
    const scope = this.scopeOf(
      levels,
      { ...request, assumed: startingRoles(this.strategiesOf(levels)) },
      runOf(request),
    );
    const { run, actorId } = scope;
    const quotas = await this.quotas.reasons(
      { ...run, actorId },
      this.settings.quotasOf(run.tenant),
    );
    return async (tool) => {
      const { declaredId } = tool.spec;
      const reasons = this.listing.reasons(tool, rules, scope);
      const kind = reasons.find(({ decision }) => decision)?.decision?.kind;
      const asked = kind === 'deny' ? [] : [...(await ownWordOf(tool, scope)), ...quotas];
      const isCalled = kind !== 'deny' && asked.every(({ holds }) => holds);
      const isCallable = isCalled && (kind === 'require_approval' ? 'asks' : true);
      return {
        declaredId,
        isListed: listed.has(declaredId),
        isCallable,
        reasons: [...reasons, ...asked],
      };
    };
  }

  /** Returns the actor, the policies and the limits of the run's calls. */
  private scopeOf<Actor>(
    levels: readonly Narrowing[],
    {
      actor,
      tenant,
      limits,
      assumed,
    }: Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'limits'> & Pick<RunPlan, 'assumed'>,
    run: RunContext<Actor>,
  ): Pick<RunPlan['execution'], 'run' | 'actorId' | 'actor' | 'policies' | 'limits'> {
    return {
      run,
      actorId: this.identity.idOf(actor),
      actor: {
        tenant,
        roles: this.identity.rolesOf(actor),
        ...(assumed && assumed !== 'all' && { assumed }),
      },
      policies: this.settings.policiesFor(levels.map(({ policy }) => policy)),
      limits: this.settings.limitsFor(limits),
    };
  }

  private strategiesOf(levels: readonly Narrowing[]): readonly ToolInjectionStrategy[] {
    const own = levels.toReversed().flatMap(({ injection }) => injection || []);
    return [this.entities, ...(this.settings.options.injection ?? []), ...own];
  }

  private listingRulesOf(
    levels: readonly Narrowing[],
    surface = this.settings.options.surface ?? 'auto',
  ): ListingRules {
    return {
      levels,
      strategies: this.strategiesOf(levels),
      surface,
      strictListing: this.settings.options.strictListing ?? false,
    };
  }

  /** Combines the code that the run calls: of the application, of its loop and of the request. */
  private combineCode<Actor>(
    request: LoopRequest<unknown, Actor>,
    { own, profile }: { readonly own: LoopRequest<unknown, Actor>; readonly profile: LoopProfile },
    run: RunContext<Actor>,
  ): Pick<RunPlan, 'instructions' | 'given' | 'history' | 'prepareStep' | 'stopWhen'> {
    const { options } = this.settings;
    const { history = options.history, prepareStep = options.prepareStep } = request;
    return {
      instructions: this.settings.instructionsFor(request.instructions, run),
      given: {
        hooks: [profile.hooks, own.hooks].filter((one) => one !== undefined),
        quotas: this.settings.quotasOf(run.tenant),
        values: this.valuesIn([...(profile.plugins ?? []), ...(own.plugins ?? [])]),
      },
      history,
      prepareStep: prepareStep && ((step) => prepareStep({ ...step, run })),
      stopWhen: stopConditionsOf(options.stopWhen, profile.stopWhen, own.stopWhen),
    };
  }

  /** The later value of a slot takes the place of an earlier one. */
  private valuesIn(values: readonly PluginValue[]): readonly PluginValue[] {
    const findings = this.plugins.findingsIn(values, 'plugins');
    if (findings.length > 0) throw new ConfigurationError(findings, 'request');
    return [...new Map(values.map((one) => [one.slot, one])).values()];
  }

  private conversationOf<Actor>(
    {
      tenant,
      actor,
      ...request
    }: Pick<LoopRequest<unknown, Actor>, 'conversationId' | 'tenant' | 'actor'>,
    resumed: ResumedRun | undefined,
  ): ConversationKey | undefined {
    const conversationId = resumed ? resumed.saved.conversationId : request.conversationId;
    if (conversationId === undefined) return undefined;
    const actorId = this.identity.idOf(actor);
    if (actorId !== undefined) return { tenant, actorId, conversationId };
    throw invalid(
      'A conversation belongs to an actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
    );
  }
}

/** The part of a request that decides on the tools of a run. */
export type ListingRequest<Actor> = Pick<
  LoopRequest<unknown, Actor>,
  'actor' | 'tenant' | 'context' | 'policy' | 'tools' | 'exclude' | 'surface'
>;

/** The terms on which a client without a model calls, which a run has none of. */
export type ClientTerms = {
  readonly [Name in 'scope' | 'argsOrigin' | 'readsElsewhere' | 'vouchedFor']?:
    SessionRequest[Name] | undefined;
};

/** A tool of the catalog, or what is known of an entity's without an instance. */
export type ExplainableTool = Pick<Tool, 'spec' | 'origin'> & Partial<Tool>;

/**
 * The reasons for which a run would be offered a tool or not, and could call it or not. They name
 * rules, never secrets.
 */
export interface ToolExplanation {
  readonly declaredId: string;
  /** `true` if a run would start with it. */
  readonly isListed: boolean;
  /**
   * `asks` if a call waits for a person's approval. The arguments, and what the run has read, may
   * make policy ask or deny all the same.
   */
  readonly isCallable: boolean | 'asks';
  /** In the order in which they are asked. */
  readonly reasons: readonly ListingReason[];
}

/** The narrowing with the policy that each level adds. */
type Narrowing = ToolNarrowing & Pick<LoopRequest, 'policy'>;

function vouchingOf({ vouchedFor }: ClientTerms = {}): Pick<RunPlan['execution'], 'vouchedFor'> {
  return vouchedFor === undefined ? {} : { vouchedFor };
}

async function ownWordOf(
  { canCall, ...tool }: ExplainableTool,
  scope: Pick<RunPlan['execution'], 'run' | 'limits'>,
): Promise<ListingReason[]> {
  if (!canCall) return [];
  const [isIn = false] = await canCallOf([{ ...tool, canCall }], { ...scope, signal: undefined });
  return [
    {
      by: 'canCall',
      holds: isIn,
      reason: `The tool's own \`canCall\` ${isIn ? 'lets the actor in' : 'keeps the actor out'}.`,
    },
  ];
}

/**
 * Tells whether a run begins without messages of its own: it has begun before, or makes one call.
 */
function asksNothing(known: KnownRun | undefined): boolean {
  return known?.saved !== undefined || isCall(known);
}

/** Tells whether a run makes one call and asks no model. */
function isCall(known: KnownRun | undefined): boolean {
  return known?.isOneCall ?? known?.saved?.isOneCall ?? false;
}

/**
 * Tells whether a run is a rehearsal. One that was begun as such stays one, whatever it is resumed
 * with; a single call says so itself.
 */
function isRehearsal(
  own: Pick<LoopRequest, 'rehearse'>,
  profile: Pick<LoopProfile, 'rehearse'>,
  known: KnownRun | undefined,
): boolean {
  if (!known?.saved) return own.rehearse ?? (!isCall(known) && profile.rehearse === true);
  if (own.rehearse && !known.saved.rehearsal) throw invalid(BEGUN_IN_EARNEST);
  return known.saved.rehearsal !== undefined;
}

/** The calls of a run before it waited, and the tools that its model was shown. */
function beforeWait({ saved }: ResumedRun): Pick<RunBeginning, 'records' | 'shown'> {
  return { records: saved.state.records, shown: saved.tools.order };
}

/** Returns the roles that a run begins with: those that every strategy leaves it. */
function startingRoles(
  strategies: readonly ToolInjectionStrategy[],
): readonly string[] | undefined {
  const said = strategies.flatMap(({ startsAs }) => (startsAs ? [startsAs] : []));
  const [first, ...others] = said;
  return first?.filter((role) => others.every((roles) => roles.includes(role)));
}

/**
 * The policies under which a run waited and which are not given any more: resuming it another way
 * widens nothing.
 */
function narrowingsBefore(
  resumed: ResumedRun | undefined,
  levels: readonly Narrowing[],
): readonly Narrowing[] {
  const said = new Set(levels.map(({ policy }) => policy && canonicalDeclaration(policy)));
  return (resumed?.saved.policies ?? []).flatMap((policy) =>
    said.has(canonicalDeclaration(policy)) ? [] : { policy: readStoredPolicy(policy) },
  );
}

function runOf<Actor>(
  {
    actor,
    tenant,
    context = {},
  }: Pick<LoopRequest<unknown, Actor>, 'actor' | 'tenant' | 'context'>,
  known?: KnownRun,
): RunContext<Actor> {
  // A map of its own for each part of a run: by it the request-scoped providers are known, and
  // those of before were made for the actor of before.
  const state = new Map<string, unknown>(known?.processState?.state);
  return { runId: known?.runId ?? randomUUID(), actor, tenant, context, state };
}

function requestIdOf<Actor>(
  { requestId }: Pick<LoopRequest, 'requestId'>,
  { runId }: RunContext<Actor>,
  resumed?: ResumedRun,
): string {
  return resumed?.saved.requestId ?? requestId ?? runId;
}

/** Reads the messages of a request as the run sends and keeps them. */
function readMessages(
  request: Pick<LoopRequest, 'prompt' | 'messages' | 'messageId' | 'labels'>,
  model: LanguageModel,
  {
    conversation,
    execution,
  }: Pick<RunPlan, 'conversation'> & { readonly execution: Pick<RunPlan['execution'], 'limits'> },
): readonly Message[] {
  const given = messagesOf(request, conversation !== undefined, execution.limits);
  return asSaid(takenBy(model, named(given, request)), request);
}

/**
 * Returns the messages of a request. The server knows the past of a conversation, so only the
 * newest user message is taken.
 */
function messagesOf(
  { prompt, messages }: Pick<LoopRequest, 'prompt' | 'messages'>,
  hasConversation: boolean,
  limits: Limits,
): readonly Message[] {
  if (prompt !== undefined && messages !== undefined)
    throw invalid('Pass `prompt` or `messages`, not both.');
  if (prompt !== undefined) {
    if (typeof prompt !== 'string' || prompt.trim() === '')
      throw invalid('The prompt is empty: say what the model should do.');
    return [{ role: 'user', content: prompt }];
  }
  const checked = checkMessages(messages ?? [], limits);
  if (!checked.some(({ role }) => role === 'user'))
    throw invalid('There is no user message: pass `prompt`, or `messages` with one.');
  if (!hasConversation) return checked;
  return checked.filter(({ role }) => role === 'user').slice(-1);
}

/** The words of the user under the client's own id of them. */
function named(
  messages: readonly Message[],
  { messageId }: Pick<LoopRequest, 'messageId'>,
): readonly Message[] {
  if (messageId === undefined) return messages;
  return messages.map((message) => (message.role === 'user' ? { ...message, messageId } : message));
}

/**
 * Refuses attachments that the model cannot see, so that it does not answer without having looked.
 */
function takenBy(
  { provider, modelId, capabilities }: LanguageModel,
  messages: readonly Message[],
): readonly Message[] {
  const untaken = messages.findIndex(
    (message) => message.role === 'user' && !takesMedia([message], capabilities),
  );
  if (untaken === -1) return messages;
  throw new InvalidRequestError(
    'invalid_messages',
    `Message ${untaken} has an image or a file that ${provider}/${modelId} does not accept. Leave it out, or choose another model.`,
  );
}
const BEGUN_IN_EARNEST =
  'The run was begun in earnest, so it cannot be resumed as a rehearsal. Leave `rehearse` out, or begin another run.';

/** The limits of a model that goes in circles, which mean nothing where there is no model. */
const WITHOUT_LOOP: Partial<Limits> = Object.freeze({
  callsPerTool: Number.POSITIVE_INFINITY,
  identicalCalls: Number.POSITIVE_INFINITY,
});
