import {
  BadRequestException,
  Body,
  type CanActivate,
  Controller,
  Delete,
  type ExecutionContext,
  Get,
  Header,
  HttpCode,
  Inject,
  Injectable,
  type MessageEvent,
  NotFoundException,
  Param,
  Post,
  Req,
  Res,
  Sse,
  StreamableFile,
  UnauthorizedException,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import type { OperatorAction } from '@toolloop/core/policy';
import { ActorIdentity, Operators } from '@toolloop/core/internal';
import { APPLICATION_TENANT } from '@toolloop/core/sources';
import {
  type Caller,
  Callers,
  FormBody,
  type HttpRequest,
  ROUTED_ACTIONS,
  ShallowBodies,
  ToolLoopExceptionFilter,
} from '@toolloop/http';
import { isRecord } from '@toolloop/protocol';
import { atMost, object, optional, type ValueOf } from '@toolloop/protocol/routes';
import type { Observable } from 'rxjs';
import { ConsoleFeed } from './console-feed.js';
import { CONSOLE_OPTIONS, type ConsoleOptions } from './console-options.js';
import { CONSOLE_HEADER, ConsoleSessions } from './console-sessions.js';
import { Evaluations } from './evaluations.controller.js';
import { PageFiles } from './page-files.js';

/** Asks the guard of the application, where it has given one. */
@Injectable()
export class ConsoleGate implements CanActivate {
  constructor(
    @Inject(CONSOLE_OPTIONS) private readonly options: ConsoleOptions,
    private readonly modules: ModuleRef,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { guard } = this.options;
    if (!guard) return true;
    const asked = await this.modules.get(guard, { strict: false }).canActivate(context);
    return typeof asked === 'boolean'
      ? asked
      : new Promise((resolve, reject) => asked.subscribe({ next: resolve, error: reject }));
  }
}

/**
 * Nothing but the application's own files and routes: no inline script or style, no other origin,
 * no frame around it.
 */
const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The name and the password that a person types, or the token of a link. */
const WAY_IN = object({
  name: optional(atMost(256)),
  password: optional(atMost(1024)),
  link: optional(atMost(256)),
});

/** The person who looks at the page, and what it may show them. */
interface SessionView {
  readonly actor: {
    readonly id?: string;
    readonly name?: string;
    readonly roles: readonly string[];
  };
  readonly tenant: string;
  readonly may: readonly OperatorAction[];
  /** Those of them that it may take for all tenants. */
  readonly everywhere: readonly OperatorAction[];
  /** Set where runs are kept, and continue without their reader. */
  readonly durable: boolean;
  /** The parts of evaluations that the application keeps. */
  readonly evaluations: { readonly results: boolean; readonly verdicts: boolean };
  /** Absent where the application's own guard lets people in. */
  readonly csrf?: string;
}

/**
 * The page, its files, its session and its feed. What it shows comes from the routes of
 * `ToolLoopHttpModule`.
 */
@Controller()
@UseGuards(ShallowBodies, ConsoleGate)
@UseFilters(ToolLoopExceptionFilter)
export class ConsoleController {
  private readonly files = new PageFiles();

  constructor(
    @Inject(CONSOLE_OPTIONS) private readonly options: ConsoleOptions,
    private readonly sessions: ConsoleSessions,
    private readonly feed: ConsoleFeed,
    private readonly callers: Callers,
    private readonly identity: ActorIdentity,
    private readonly operators: Operators,
    private readonly adapters: HttpAdapterHost,
    private readonly evaluations: Evaluations,
  ) {}

  /**
   * Shows the page, which holds nothing of anyone. A person whom the application knows by a session
   * of its own gets one of the console here.
   */
  @Get()
  async page(
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) response: unknown,
  ): Promise<string> {
    const isKnown = (await this.sessions.find(request)) !== undefined;
    const caller = isKnown ? undefined : await this.sessions.ofHost(request);
    if (caller) this.set(response, { 'set-cookie': this.sessions.cookieFor(caller, request) });
    const { html } = this.files;
    this.set(response, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CONTENT_POLICY,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
    return html === undefined ? NOT_BUILT : this.placed(html, request);
  }

  @Get('assets/:name')
  asset(
    @Param('name') name: string,
    @Req() { headers }: HttpRequest,
    @Res({ passthrough: true }) response: unknown,
  ): StreamableFile {
    const accepted = headers['accept-encoding'];
    const file = this.files.find(name, typeof accepted === 'string' ? accepted : '');
    if (!file)
      throw new NotFoundException({ code: 'not_found', message: 'The page has no such file.' });
    this.set(response, file.headers);
    return new StreamableFile(file.body, {
      type: file.headers['content-type'] ?? '',
      length: file.body.length,
    });
  }

  /** Tells the page who is looking at it; for someone who is not let in yet, how they could be. */
  @Get('session')
  @Header('cache-control', 'no-store')
  async session(
    @Req() request: HttpRequest,
  ): Promise<SessionView | { readonly ways: readonly string[] }> {
    const session = await this.sessions.find(request);
    if (session) return this.viewOf(session.caller, session.csrf);
    const caller = this.options.guard ? await this.callers.find(request) : undefined;
    if (caller) return this.viewOf(caller);
    return { ways: this.sessions.ways };
  }

  /**
   * Lets a person in, by what they typed or by a link.
   *
   * @throws {BadRequestException} For a body with neither.
   */
  @Post('session')
  @HttpCode(204)
  async signIn(
    @Body(new FormBody(WAY_IN)) { name, password, link }: ValueOf<typeof WAY_IN>,
    @Req() request: HttpRequest,
    @Res({ passthrough: true }) response: unknown,
  ): Promise<void> {
    assertOwnPage(request);
    if (name === undefined && link === undefined)
      throw new BadRequestException('Send a name and a password, or the token of a link.');
    const address = this.callers.addressOf(request);
    const caller =
      link === undefined
        ? await this.sessions.logIn({ name: name ?? '', password: password ?? '' }, address)
        : await this.sessions.redeem(link, address);
    this.set(response, {
      'set-cookie': this.sessions.cookieFor(caller, request, link !== undefined),
    });
  }

  @Delete('session')
  @HttpCode(204)
  signOut(@Req() request: HttpRequest, @Res({ passthrough: true }) response: unknown): void {
    assertOwnPage(request);
    this.set(response, { 'set-cookie': this.sessions.end(request) });
  }

  /** Tells the page that a list is another, so that one stream serves all tabs of a browser. */
  @Sse('feed')
  async changes(@Req() request: HttpRequest): Promise<Observable<MessageEvent>> {
    const session = await this.sessions.find(request);
    const caller =
      session?.caller ?? (this.options.guard ? await this.callers.find(request) : undefined);
    if (!caller)
      throw new UnauthorizedException({ code: 'unauthorized', message: 'Sign in first.' });
    return this.feed.read(caller);
  }

  private viewOf(caller: Caller, csrf?: string): SessionView {
    const { actor, tenant } = caller;
    const id = this.identity.idOf(actor);
    const name: unknown = isRecord(actor) ? actor['name'] : undefined;
    return {
      actor: {
        ...(id !== undefined && { id }),
        ...(typeof name === 'string' && { name }),
        roles: this.identity.rolesOf(actor),
      },
      tenant,
      durable: this.sessions.isDurable,
      may: ROUTED_ACTIONS.filter((action) => this.operators.may(caller, action)),
      everywhere: ROUTED_ACTIONS.filter((action) =>
        this.operators.may(caller, action, APPLICATION_TENANT),
      ),
      evaluations: this.evaluations.kept,
      ...(csrf !== undefined && { csrf }),
    };
  }

  /**
   * Tells the page where it is. Every address in it is relative, so that it holds under any prefix
   * and behind a proxy's path; they depend on whether the browser's address ends in a slash.
   */
  private placed(html: string, { url }: HttpRequest): string {
    const segments = (url.split('?')[0] ?? '').split('/');
    const isFolder = segments.at(-1) === '';
    const own = isFolder ? '.' : `./${segments.at(-1) ?? ''}`;
    const depth = this.sessions.depth - (isFolder ? 0 : 1);
    const root = depth === 0 ? '.' : Array.from({ length: depth }, () => '..').join('/');
    const api =
      this.options.api === undefined
        ? root
        : `${root}/${this.options.api.replace(/^\/+|\/+$/g, '')}`;
    const { title = 'Toolloop' } = this.options;
    const place = `data-own="${escaped(own)}" data-api="${escaped(api)}" data-title="${escaped(title)}"`;
    return html
      .replaceAll('="./assets/', `="${escaped(own)}/assets/`)
      .replace('<html', `<html ${place}`);
  }

  private set(response: unknown, headers: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(headers))
      this.adapters.httpAdapter.setHeader(response, name, value);
  }
}

const NOT_BUILT =
  '<!doctype html><title>Toolloop</title><p>The page of the console is not built. Run <code>npm run build</code> and reload.</p>';

/** Refuses a form that a page of another origin has sent: it cannot set a header. */
function assertOwnPage({ headers }: HttpRequest): void {
  if (headers[CONSOLE_HEADER] === undefined)
    throw new UnauthorizedException({
      code: 'unauthorized',
      message: `Send the header ${CONSOLE_HEADER}.`,
    });
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
