import type { CanActivate, Type } from '@nestjs/common';
import type { RegisteredActor } from '@toolloop/core';
import { CLASS, defineOptions, FUNCTION, optionsOf, TEXT } from '@toolloop/core/internal';
import type { Caller, HttpRequest } from '@toolloop/http';
import {
  ConfigurationError,
  type EvalReport,
  type Finding,
  isObject,
  type Verdict,
} from '@toolloop/protocol';

/**
 * Options of {@link ConsoleModule}: the way in, of which production needs one.
 *
 * @example
 * const options: ConsoleOptions<User> = {
 *   login: async ({ name, password }) => {
 *     const user = await users.withPassword(name, password);
 *     return user && { actor: user, tenant: user.tenantId };
 *   },
 *   secret: process.env.CONSOLE_SECRET,
 * };
 */
export interface ConsoleOptions<Actor = RegisteredActor> {
  /**
   * A guard of the application that lets people see the page. The requests of the page are then
   * those of any client: the `identity` of `ToolLoopHttpModule` must know them by a cookie.
   */
  readonly guard?: Type<CanActivate>;
  /**
   * Finds the person who opens the page by a session of the application, such as its own cookie.
   * They get a session of the console.
   */
  session?(request: HttpRequest): Found<Actor> | Promise<Found<Actor>>;
  /**
   * Finds the person whose name and password were typed. Five tries a minute for each address and
   * each name.
   */
  login?(credentials: ConsoleCredentials): Found<Actor> | Promise<Found<Actor>>;
  /**
   * The person whom the one-time link lets in that a start prints outside of production. @default
   * none: no link
   */
  developer?(): Found<Actor> | Promise<Found<Actor>>;
  /**
   * Signs the sessions: at least 32 characters, the same in every process. @default a random one,
   * with which sessions end with the process; production needs one
   */
  readonly secret?: string;
  /** The path of `ToolLoopHttpModule`, if it has one, such as `api`. @default none */
  readonly api?: string;
  /** Results of evaluations, and where people say whether a run was right. @default none */
  readonly evaluations?: ConsoleEvaluations<Actor>;
  /** The name of the application, in the title of the page. @default 'Toolloop' */
  readonly title?: string;
}

/** The name and the password that a person has typed on the console's own page. */
export interface ConsoleCredentials {
  readonly name: string;
  readonly password: string;
}

/** The result of an evaluation, as an application gives it. */
export interface EvalResult {
  /** Unique among the results, and part of an address. */
  readonly id: string;
  /** ISO 8601. */
  readonly at: string;
  readonly report: EvalReport;
}

/** Keeps what people say about runs, such as in a table of the application. */
export interface VerdictKeeper<Actor = RegisteredActor> {
  add(verdict: Verdict, caller: Caller<Actor>): void | Promise<void>;
  /** Finds what was said about a run and its approvals, the oldest first. */
  of(runId: string, caller: Caller<Actor>): readonly Verdict[] | Promise<readonly Verdict[]>;
}

/** The evaluations of the application: what they resulted in, and where people's verdicts go. */
export interface ConsoleEvaluations<Actor = RegisteredActor> {
  /**
   * The folder into which `toolloop eval --out` writes, shown to operators who may see the runs of
   * all tenants; or a function that gives a person the results that they may see.
   *
   * @default none: the section is left out
   */
  readonly results?:
    string | ((caller: Caller<Actor>) => readonly EvalResult[] | Promise<readonly EvalResult[]>);
  /**
   * The file that `toolloop eval judge` reads, `evals/verdicts.jsonl` by default there; or what
   * keeps them. @default none: no one is asked
   */
  readonly verdicts?: string | VerdictKeeper<Actor>;
}

type Found<Actor> = Caller<Actor> | null | undefined;

/** The options that decide what Nest sets up, which cannot come from a factory. */
export interface ConsoleExtras {
  /** The path of the page. @default 'console' */
  readonly path?: string;
}

export const CONSOLE_OPTIONS = Symbol('toolloop:console options');
export const CONSOLE_PATH = Symbol('toolloop:console path');

const SHORTEST_SECRET = 32;

const KEEPER = 'the path of a file, or an object with add and of';

const EVALUATIONS = defineOptions<ConsoleEvaluations>({
  results: {
    wanted: 'the path of a folder, or a function',
    accept: (value) => typeof value === 'string' || typeof value === 'function',
  },
  verdicts: { wanted: KEEPER, accept: isKeeper },
});

const CONSOLE = defineOptions<ConsoleOptions>({
  guard: CLASS,
  session: FUNCTION,
  login: FUNCTION,
  developer: FUNCTION,
  secret: { ...TEXT, wanted: `a text of at least ${SHORTEST_SECRET} characters`, accept: isSecret },
  api: TEXT,
  evaluations: optionsOf(EVALUATIONS),
  title: TEXT,
});

function isKeeper(value: unknown): boolean {
  return (
    typeof value === 'string' ||
    (isObject(value) &&
      ['add', 'of'].every((name) => typeof Reflect.get(value, name) === 'function'))
  );
}

function isSecret(text: unknown): boolean {
  return typeof text === 'string' && text.length >= SHORTEST_SECRET;
}

/**
 * Checks the options.
 *
 * @throws ConfigurationError where an option is wrong, and where nothing could open the console:
 *   without a gate in production, and without any way in elsewhere.
 */
export function assertConsole(options: ConsoleOptions, isProduction: boolean): void {
  const findings = [...CONSOLE.findings(options, AT), ...gateFindings(options, isProduction)];
  if (findings.length > 0) throw new ConfigurationError(findings);
}

/**
 * Checks that the people whom the console lets in are known again: its sessions have their ids
 * alone. Only the developer needs no directory, being whom the option names.
 *
 * @throws ConfigurationError where they are not.
 */
export function assertDirectory(options: ConsoleOptions, hasDirectory: boolean): void {
  const hasSessions = options.session !== undefined || options.login !== undefined;
  if (hasSessions && !hasDirectory) throw new ConfigurationError([NO_DIRECTORY]);
}

const AT = 'ConsoleModule';

const NO_DIRECTORY: Finding = {
  at: AT,
  problem:
    'It lets people in by a name or a session, but nothing loads them at their next request.',
  remedy:
    'Provide a class that extends ActorDirectory, in any module. A guard of the application needs none, and neither does developer.',
};

const GATE =
  'Give one: a guard of the application, session: (request) => ({ actor, tenant }), or login: ({ name, password }) => ({ actor, tenant }).';

function gateFindings(options: ConsoleOptions, isProduction: boolean): Finding[] {
  const has = (name: keyof ConsoleOptions): boolean => options[name] !== undefined;
  if (has('guard')) return [];
  if (!has('session') && !has('login'))
    return isProduction ? [NO_GATE] : has('developer') ? [] : [NO_WAY_IN];
  return isProduction && !has('secret') ? [NO_SECRET] : [];
}

const NO_GATE: Finding = {
  at: AT,
  problem: 'The console has no gate, and this is production.',
  remedy: GATE,
};
const NO_WAY_IN: Finding = {
  at: AT,
  problem: 'Nothing can open the console.',
  remedy: `${GATE} Outside of production developer: () => ({ actor, tenant }) will do.`,
};
const NO_SECRET: Finding = {
  at: AT,
  problem:
    'Nothing signs the sessions of the console in production, where several processes may serve it.',
  remedy: `Give secret: a random text of at least ${SHORTEST_SECRET} characters.`,
};
