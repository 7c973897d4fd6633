import type { INestApplicationContext } from '@nestjs/common';
import {
  type PendingSelection,
  type RunSelection,
  ToolLoopClient,
  ToolLoopHttpError,
} from '@toolloop/client';
import type { PendingService, ToolCatalog, ToolLoopService } from '@toolloop/core';
import type { ServedLoop } from '@toolloop/http';
import type { RehearsalService, RunService } from '@toolloop/core/runs';
import {
  type Amendment,
  type AnsweredRequest,
  type Asks,
  type ExplainedCall,
  type ExplainedTool,
  isRecord,
  type JsonObject,
  type ListedTool,
  type LoopEvent,
  type MadeCall,
  type PendingReply,
  type RehearsalChoices,
  type RehearsedRun,
  type Run,
  type WaitingRequest,
} from '@toolloop/protocol';
import {
  type ActorOptions,
  actorIn,
  type AppOptions,
  boot,
  packageNear,
  providerIn,
} from './application.js';
import { CommandError, lineOf } from './output.js';

/** The application behind a command, as the actor of the command may use it. */
export interface Counterpart {
  /** Set where it listens nowhere: other people answer in another process, on the same storage. */
  readonly isAlone: boolean;
  tools(): Promise<readonly ListedTool[]>;
  call(tool: string, args: JsonObject): Promise<MadeCall>;
  explain(tool: string, subject: ExplanationSubject): Promise<ExplainedTool | ExplainedCall>;
  /** A page of what waits, the oldest first. */
  inbox(selection?: PendingSelection): Promise<readonly WaitingRequest[]>;
  answer(runId: string, reply: PendingReply): Promise<AnsweredRequest>;
  /** Takes a decision that is about several calls, or trusts something beside a call. */
  decide(verdict: Verdict): Promise<void>;
  runs(selection: RunSelection): Promise<readonly Run[]>;
  rehearsalChoices(): Promise<RehearsalChoices>;
  /** Rehearses a run, and compares once a model that is asked for it has come to its end. */
  rehearse(runId: string, terms: RehearsalTerms): Promise<RehearsedRun>;
  ask(message: string, conversationId: string, signal: AbortSignal): AsyncIterable<LoopEvent>;
  resume(runId: string, signal: AbortSignal): AsyncIterable<LoopEvent>;
  audit(): Promise<ExportedAudit>;
  close(): Promise<void>;
}

/**
 * The options that say which application a command is about: one that listens, or one that is
 * booted for the command.
 */
export interface CounterpartOptions extends Partial<AppOptions & ActorOptions> {
  /** The address of the routes of an application. */
  readonly url?: string;
}

/** A tenant's audit: its signed head, and the lines up to it or behind. */
export interface ExportedAudit {
  readonly head: unknown;
  readonly lines: AsyncIterable<Uint8Array | string>;
}

/**
 * A decision about an approval, or about several of one group, and what the person trusts with it.
 */
export interface Verdict {
  readonly approvalIds: readonly [string, ...string[]];
  readonly decision: 'approve' | 'deny';
  readonly reason: string | undefined;
  /** The things that are trusted for the rest of the run. */
  readonly endorse: Amendment['endorse'];
  /** The argument whose value is trusted in all runs of the tenant. */
  readonly always: { readonly argument: string; readonly reason: string } | undefined;
}

/** The model and the policy of a rehearsal, by their names. */
export type RehearsalTerms = Pick<RehearsedRun, 'model' | 'policy'>;

/** A tool for an actor, or one call. */
type ExplanationSubject = Omit<Asks<'GET /explain/:tool'>, 'tool'>;

/**
 * Finds the application of a command.
 *
 * @throws {CommandError} Where the options name none, and for an application that cannot be booted.
 */
export async function counterpartOf(options: CounterpartOptions): Promise<Counterpart> {
  const { url, app, actor, tenant, export: name } = options;
  if (url !== undefined) return new RemoteApplication(url);
  if (app === undefined)
    throw new CommandError(
      'No application is named. Give --url http://127.0.0.1:3000, or --app dist/app.module.js',
    );
  if (actor === undefined || tenant === undefined)
    throw new CommandError(
      'Say for whom --app is booted: --actor and --tenant, or TOOLLOOP_ACTOR and TOOLLOOP_TENANT.',
    );
  const named = { app, ...(name !== undefined && { export: name }) };
  const booted = await boot(named);
  try {
    return await BootedApplication.of(booted, named, { actor, tenant });
  } catch (error) {
    await booted.close();
    throw error;
  }
}

/** An application that listens, asked with the token of the environment. */
class RemoteApplication implements Counterpart {
  readonly isAlone = false;
  private readonly client: ToolLoopClient;

  /** @throws {CommandError} For what is no address, and for a token that no request can carry. */
  constructor(url: string) {
    if (!/^https?:/i.test(url) || !URL.canParse(url))
      throw new CommandError(`--url ${url} is no address such as http://127.0.0.1:3000.`);
    const token = process.env['TOOLLOOP_TOKEN'];
    if (token && NO_HEADER.test(token))
      throw new CommandError(
        'The token in TOOLLOOP_TOKEN has a character that no header can carry, such as the end of a line.',
      );
    const headers: Readonly<Record<string, string>> = token
      ? { authorization: `Bearer ${token}` }
      : {};
    const reach: typeof fetch = async (input, init) => {
      const response = await fetch(input, init).catch((error: unknown) =>
        Promise.reject(unreachable(url, error)),
      );
      if (response.status === 401) throw await unknownPerson(url, response, token);
      return response.status === 404 ? withAddressHint(url, response) : response;
    };
    this.client = new ToolLoopClient({ url, headers: () => headers, fetch: reach });
  }

  tools = (): Promise<readonly ListedTool[]> => this.client.tools();
  call = (tool: string, args: JsonObject): Promise<MadeCall> => this.client.call(tool, args);
  explain = (tool: string, subject: ExplanationSubject): Promise<ExplainedTool | ExplainedCall> =>
    this.client.request('GET /explain/:tool', { tool, ...subject });
  answer = (runId: string, reply: PendingReply): Promise<AnsweredRequest> =>
    this.client.answer(runId, reply);
  runs = (selection: RunSelection): Promise<readonly Run[]> => this.client.runs(selection);
  resume = (runId: string, signal: AbortSignal): AsyncIterable<LoopEvent> =>
    this.client.resume(runId, signal);
  rehearsalChoices = (): Promise<RehearsalChoices> => this.client.request('GET /rehearsals', {});

  async rehearse(runId: string, terms: RehearsalTerms): Promise<RehearsedRun> {
    const begun = await this.client.request('POST /runs/:runId/rehearse', { runId, ...terms });
    if (begun.rehearsedBy === undefined) return begun;
    await ended(this.client.events(begun.rehearsedBy));
    return this.client.request('GET /runs/:runId/rehearsal', {
      runId: begun.rehearsedBy,
      policy: terms.policy,
    });
  }

  async decide({
    approvalIds: [first, ...also],
    decision,
    reason,
    endorse,
    always,
  }: Verdict): Promise<void> {
    const reach = { ...(also.length > 0 && { also }), ...(always && { always }) };
    await this.client.decide(first, decision, reason, endorse && { endorse }, reach);
  }

  ask(message: string, conversationId: string, signal: AbortSignal): AsyncIterable<LoopEvent> {
    return this.client.ask({ message, conversationId }, { signal });
  }

  async inbox(selection: PendingSelection = {}): Promise<readonly WaitingRequest[]> {
    try {
      return await this.client.pending(selection);
    } catch (error) {
      // Routes of an application's own may know approvals alone.
      if (!(error instanceof ToolLoopHttpError) || error.status !== 404) throw error;
      const approvals = await this.client.approvals(selection);
      return approvals.map((request) => ({ kind: 'approval', id: request.approvalId, request }));
    }
  }

  async audit(): Promise<ExportedAudit> {
    const head = await this.client.request('GET /audit/head', {});
    return { head, lines: await this.client.auditLines() };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** The characters that the platform refuses in a header, with an error that tells the token. */
const NO_HEADER = /[^\t\u0020-\u007e\u0080-\u00ff]/;

/** Resolves once a run has ended. */
async function ended(events: AsyncIterable<LoopEvent>): Promise<void> {
  for await (const { type } of events) if (type === 'run-end') return;
}

/** Says which address did not answer: the platform's own words are "fetch failed". */
function unreachable(url: string, error: unknown): unknown {
  if (!(error instanceof TypeError)) return error;
  const { cause } = error;
  return new CommandError(
    `${url} cannot be reached: ${cause instanceof Error ? cause.message : error.message}`,
  );
}

/**
 * Says what an address lacks that has no such route: Nest's own words name the route alone. Any
 * other 404 stays as it is.
 */
async function withAddressHint(url: string, response: Response): Promise<Response> {
  const body: unknown = await response
    .clone()
    .json()
    .catch((): unknown => undefined);
  const told = isRecord(body) ? body['message'] : undefined;
  if (typeof told !== 'string' || !/^Cannot [A-Z]+ \//.test(told)) return response;
  const prefixed = `${url.replace(/\/+$/, '')}/assistant`;
  const message = `${told}: there are no such routes at ${url}. If they have a prefix, such as the path of ToolLoopHttpModule, give it too: TOOLLOOP_URL=${prefixed}`;
  return Response.json({ message }, { status: 404 });
}

/** Says whom an address does not know: the person whose token is in the environment, or no one. */
async function unknownPerson(
  url: string,
  response: Response,
  token: string | undefined,
): Promise<CommandError> {
  const body: unknown = await response.json().catch((): unknown => undefined);
  const told =
    isRecord(body) && typeof body['message'] === 'string' ? ` ${lineOf(body['message'])}` : '';
  const advice = token
    ? 'The token in TOOLLOOP_TOKEN is none that it knows.'
    : 'Set TOOLLOOP_TOKEN to the token of a person.';
  return new CommandError(`${url} does not know who asks.${told} ${advice}`);
}

/** Finds the loop that the routes of an application serve; undefined for one without them. */
async function servedLoopIn(
  app: INestApplicationContext,
  { app: file }: AppOptions,
): Promise<ServedLoop | undefined> {
  const http = await packageNear<typeof import('@toolloop/http')>('@toolloop/http', file).catch(
    () => undefined,
  );
  return http && providerIn(app, file, http.ServedLoop);
}

interface Person {
  readonly actor: unknown;
  readonly tenant: string;
}

interface Services {
  readonly loop: ToolLoopService;
  /** The terms of the routes, if the application has them. */
  readonly served: Pick<ServedLoop, 'termsOf'> | undefined;
  readonly runs: RunService;
  readonly pending: PendingService;
  readonly catalog: ToolCatalog;
}

/** An application that was booted for the command, and listens nowhere. */
class BootedApplication implements Counterpart {
  readonly isAlone = true;

  private constructor(
    private readonly app: INestApplicationContext,
    private readonly file: string,
    private readonly services: Services,
    private readonly person: Person,
  ) {}

  static async of(
    app: INestApplicationContext,
    options: AppOptions,
    { actor, tenant }: ActorOptions,
  ): Promise<BootedApplication> {
    const core = await packageNear<typeof import('@toolloop/core')>('@toolloop/core', options.app);
    const { RunService: Runs } = await packageNear<typeof import('@toolloop/core/runs')>(
      '@toolloop/core/runs',
      options.app,
    );
    const get = <Value>(token: abstract new (...args: never[]) => Value): Value =>
      app.get(token, { strict: false });
    const served = await servedLoopIn(app, options);
    const services = {
      loop: served?.loop ?? get(core.ToolLoopService),
      served,
      runs: get(Runs),
      pending: get(core.PendingService),
      catalog: get(core.ToolCatalog),
    };
    return new BootedApplication(app, options.app, services, {
      actor: await actorIn(app, options, { actor, tenant }),
      tenant,
    });
  }

  async tools(): Promise<readonly ListedTool[]> {
    const { loop, catalog } = this.services;
    const tools = await loop.list(await this.terms());
    return tools.map(({ id, description, effect, inputSchema, declaredId }) => {
      const { presentation } = catalog.describe(declaredId);
      return Object.assign(
        { id, description, effect, inputSchema },
        presentation && { presentation },
      );
    });
  }

  async call(tool: string, args: JsonObject): Promise<MadeCall> {
    const { ui, injectedTools, ...made } = await this.services.loop.call({
      ...(await this.terms()),
      tool,
      args,
      argsOrigin: 'actor',
    });
    return {
      ...made,
      ...(ui !== undefined && { ui }),
      injectedTools: injectedTools.map(({ id }) => id),
    };
  }

  async explain(
    tool: string,
    { actorId, runId, toolCallId }: ExplanationSubject,
  ): Promise<ExplainedTool | ExplainedCall> {
    const { loop } = this.services;
    const operator = this.person;
    if (runId !== undefined && toolCallId !== undefined)
      return loop.explainCall({ runId, toolCallId, operator });
    const { tenant } = operator;
    const subject =
      actorId === undefined
        ? operator
        : {
            actor: await actorIn(this.app, { app: this.file }, { actor: actorId, tenant }),
            tenant,
          };
    return loop.explain(tool, { ...(await this.terms(subject)), operator });
  }

  inbox(selection: PendingSelection = {}): Promise<readonly WaitingRequest[]> {
    return this.services.pending.inbox(this.person, selection);
  }

  async answer(runId: string, reply: PendingReply): Promise<AnsweredRequest> {
    const { id, kind } = await this.services.runs.answer(runId, reply, this.person);
    return { id, kind };
  }

  async decide({ approvalIds, decision, reason, endorse, always }: Verdict): Promise<void> {
    const { services, person } = this;
    const { EndorsementService } = await packageNear<typeof import('@toolloop/core/runs')>(
      '@toolloop/core/runs',
      this.file,
    );
    const said = { decision, ...(reason !== undefined && { reason }) };
    const [approvalId] = approvalIds;
    if (approvalIds.length > 1)
      return void (await services.pending.decideTogether(approvalIds, said, person));
    const endorsements = this.app.get(EndorsementService, { strict: false });
    if (always) await endorsements.assertAlways(approvalId, always, person, decision);
    await services.pending.decide({ approvalId, ...said }, person, endorse && { endorse });
    if (always) await endorsements.always(approvalId, always, person);
  }

  runs(selection: RunSelection): Promise<readonly Run[]> {
    return this.services.runs.list(this.person, selection);
  }

  async rehearsalChoices(): Promise<RehearsalChoices> {
    return (await this.rehearsals()).choices(this.person);
  }

  async rehearse(runId: string, terms: RehearsalTerms): Promise<RehearsedRun> {
    const rehearsals = await this.rehearsals();
    const begun = await rehearsals.rehearse(runId, terms, this.person);
    if (begun.rehearsedBy === undefined) return begun;
    await ended(this.services.runs.read(begun.rehearsedBy, this.person));
    return rehearsals.compare(begun.rehearsedBy, terms, this.person);
  }

  private async rehearsals(): Promise<RehearsalService> {
    const core = await packageNear<typeof import('@toolloop/core/runs')>(
      '@toolloop/core/runs',
      this.file,
    );
    return this.app.get(core.RehearsalService, { strict: false });
  }

  async *ask(
    message: string,
    conversationId: string,
    signal: AbortSignal,
  ): AsyncIterable<LoopEvent> {
    yield* this.services.loop.open({
      ...(await this.terms()),
      prompt: message,
      conversationId,
      signal,
    });
  }

  async *resume(runId: string, signal: AbortSignal): AsyncIterable<LoopEvent> {
    yield* await this.services.loop.resume(runId, { ...(await this.terms()), signal });
  }

  /** A person, with the terms on which the routes of the application let them in. */
  private async terms(person: Person = this.person): Promise<Person> {
    return (await this.services.served?.termsOf(person)) ?? person;
  }

  async audit(): Promise<ExportedAudit> {
    const { AuditTrail } = await packageNear<typeof import('@toolloop/core/audit')>(
      '@toolloop/core/audit',
      this.file,
    );
    const trail = this.app.get(AuditTrail, { strict: false });
    const { tenant } = this.person;
    return { head: await trail.exportHead(tenant), lines: trail.exportLines(tenant) };
  }

  async close(): Promise<void> {
    await this.app.close();
  }
}
