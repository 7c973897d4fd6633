import {
  DefaultValuePipe,
  ParseIntPipe,
  RequestMethod,
  StreamableFile,
  type Type,
} from '@nestjs/common';
import {
  CUSTOM_ROUTE_ARGS_METADATA,
  METHOD_METADATA,
  PATH_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  ROUTE_ARGS_METADATA,
  SSE_METADATA,
} from '@nestjs/common/constants.js';
import {
  addressable,
  type ArgumentProblem,
  type Finding,
  isObject,
  isRecord,
  type JsonObject,
} from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import type { ToolInputCodec } from '../../contracts/tool.js';
import {
  type CompiledInput,
  compileDtoInput,
  compileSchemaInput,
  isDtoClass,
  withoutAllowed,
} from '../../schema/tool-input.js';
import { isReserved } from '../../schema/reserved-names.js';
import { type NamedParameter, parameterSchema } from '../../schema/parameter-schema.js';
import { type BacktrackingFinding, backtrackingIn } from '../../schema/subset.js';
import { handlerOf } from './enhancers.js';

/**
 * Compiles the route of a handler: its path's parameters, its query and its body become one closed
 * object. An argument that is named as the tenant is filled in from the run, so that no model sees
 * it.
 */
export function compileRoute(handler: RouteHandler, reserved: readonly string[]): RouteDeclaration {
  return new RouteCompilation(
    handler,
    withoutAllowed(reserved, handler.method.options?.allowReserved?.arguments),
  ).result();
}

/** The parts of a request that hold arguments, under the names that they have in it. */
export type RouteParts = Readonly<Record<RoutePart, Readonly<Record<string, unknown>>>>;
type RoutePart = 'params' | 'query' | 'body';

/** A handler's route as a tool: its input, and the request that a call's arguments make. */
export interface RouteDeclaration extends CompiledInput {
  /** Makes the request of a call. What the route takes from a tenant is filled in here. */
  request(
    args: Readonly<Record<string, unknown>>,
    tenant: string,
  ): RouteParts & { readonly method: string; readonly url: string };
}

/** Nest's numbers for the parameters of a handler that hold arguments. */
const PARTS: ReadonlyMap<number, RoutePart> = new Map([
  [3, 'body'],
  [4, 'query'],
  [5, 'params'],
]);

/**
 * The decorators of the others, by Nest's numbers: no model has what they read, and no tool call
 * has it either.
 */
const UNREADABLE: ReadonlyMap<number, string> = new Map([
  [0, '@Req()'],
  [1, '@Res()'],
  [2, '@Next()'],
  [6, '@Headers()'],
  [7, '@Session()'],
  [8, '@UploadedFile()'],
  [9, '@UploadedFiles()'],
  [10, '@HostParam()'],
  [11, '@Ip()'],
  [12, '@RawBody()'],
  [13, '@Ack()'],
  [14, '@Cookies()'],
  [15, '@SignedCookies()'],
]);

/** Answers of a handler that are no JSON. */
const ANSWERS: readonly (readonly [key: string, decorator: string])[] = [
  [SSE_METADATA, '@Sse()'],
  [REDIRECT_METADATA, '@Redirect()'],
  [RENDER_METADATA, '@Render()'],
];

/** A handler whose route becomes a tool. */
interface RouteHandler {
  readonly at: string;
  readonly type: Type;
  readonly method: ToolMethod;
}

/** Returns whether a method of a controller answers a route. */
export function isRouteHandler({ type, method }: Pick<RouteHandler, 'type' | 'method'>): boolean {
  const handler = handlerOf(type, method.property);
  return handler !== undefined && Reflect.hasMetadata(METHOD_METADATA, handler);
}

/** Some arguments of the route, and the class that checks them. */
interface Piece {
  readonly part: RoutePart;
  readonly schema: JSONSchema7;
  readonly codec?: ToolInputCodec;
}

class RouteCompilation {
  private readonly findings: Finding[] = [];
  private readonly backtracking: BacktrackingFinding[] = [];
  private readonly path: string;
  private readonly verb: string;
  private readonly partOf = new Map<string, RoutePart>();
  private readonly filled = new Set<string>();

  constructor(
    private readonly handler: RouteHandler,
    private readonly reserved: readonly string[],
  ) {
    const target = handlerOf(handler.type, handler.method.property) ?? {};
    this.path = [pathOf(handler.type), pathOf(target)].filter((part) => part !== '').join('/');
    this.verb = verbOf(Reflect.getMetadata(METHOD_METADATA, target));
    for (const [key, decorator] of ANSWERS)
      if (Reflect.hasMetadata(key, target))
        this.say(
          `It answers by ${decorator}, which is no result that a model can read.`,
          ELSEWHERE,
        );
    const answer: unknown = Reflect.getMetadata(
      'design:returntype',
      prototypeOf(handler.type),
      handler.method.property,
    );
    if (answer === StreamableFile)
      this.say('It answers with a file, which is no result that a model can read.', ELSEWHERE);
  }

  result(): RouteDeclaration {
    const { at } = this.handler;
    const pieces = this.pieces();
    const schema = this.merged(pieces);
    const compiled = compileSchemaInput({
      at,
      reserved: this.reserved,
      schema,
      read: (args) => this.read(pieces, args),
    });
    const hidden = pieces.flatMap(({ codec }) => codec?.hidden ?? []);
    return {
      input: { ...compiled.input, hidden },
      findings: [...this.findings, ...compiled.findings],
      backtracking: this.backtracking,
      request: (args, tenant) => this.request(args, tenant),
    };
  }

  private pieces(): readonly Piece[] {
    const parameters = this.parameters();
    const whole = parameters.filter(({ name }) => name === undefined);
    const named = parameters.filter(
      (parameter): parameter is NamedPlace => parameter.name !== undefined,
    );
    return [
      ...whole.flatMap((parameter) => this.wholePart(parameter)),
      ...['params', 'query', 'body'].flatMap((part) =>
        this.namedPart(named.filter((one) => one.part === part)),
      ),
      ...this.restOfPath(parameters),
    ];
  }

  private parameters(): readonly Place[] {
    const { type, method } = this.handler;
    const recorded: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, type, method.property);
    const entries = isRecord(recorded) ? Object.entries(recorded) : [];
    const indexes = new Set<unknown>(
      entries.map(([, value]) => (isObject(value) ? value['index'] : undefined)),
    );
    for (const { kind, index } of method.parameters) {
      if (kind === 'input')
        this.say(
          'It takes its arguments by @ToolInput(), which an HTTP request does not fill.',
          'Write @Body() or @Query().',
        );
      if (kind !== 'param') indexes.add(index);
    }
    for (const index of method.designTypes.keys())
      if (!indexes.has(index))
        this.say(
          `Parameter ${index + 1} has no decorator of Nest's.`,
          'Add @Param(), @Query() or @Body(), or remove it.',
        );
    return entries
      .flatMap(([key, value]) => this.place(key, value))
      .toSorted((a, b) => a.index - b.index);
  }

  private place(key: string, value: unknown): Place[] {
    // it reads the request, like a guard
    if (key.includes(CUSTOM_ROUTE_ARGS_METADATA) || !isObject(value)) return [];
    const kind = Number(key.split(':', 1)[0]);
    const part = PARTS.get(kind);
    const { index, data, pipes } = value;
    if (part === undefined) {
      this.say(
        `It reads ${UNREADABLE.get(kind) ?? 'a part of the request'}, which a tool call does not have.`,
        ELSEWHERE,
      );
      return [];
    }
    if (typeof index !== 'number') return [];
    const name = typeof data === 'string' && data !== '' ? { name: data } : {};
    return [
      {
        part,
        index,
        ...name,
        pipes: Array.isArray(pipes) ? pipes : [],
        designType: this.handler.method.designTypes[index],
      },
    ];
  }

  /** A parameter that takes the whole body, the whole query or all parameters of the path. */
  private wholePart({ part, designType }: Place): Piece[] {
    if (part === 'params' && !isDtoClass(designType)) return []; // see restOfPath
    if (!isDtoClass(designType)) {
      this.say(
        `The class of its ${part} is not known at run time.`,
        'Take it by a DTO class, imported as a value and not by "import type".',
      );
      return [];
    }
    const {
      input,
      findings,
      backtracking = [],
    } = compileDtoInput({ at: this.handler.at, reserved: [], type: designType });
    this.findings.push(...findings);
    this.backtracking.push(...backtracking);
    return [{ part, schema: input.schema, codec: input }];
  }

  private namedPart(places: readonly NamedPlace[]): Piece[] {
    const [first] = places;
    if (!first) return [];
    const described = this.handler.method.parameters.filter(
      (parameter): parameter is NamedParameter => parameter.kind === 'param',
    );
    const parameters = places.map((place) =>
      parameterOf(
        place,
        described.find(({ index }) => index === place.index),
      ),
    );
    const { schema, findings } = parameterSchema(parameters, this.handler.method.designTypes);
    this.findings.push(
      ...findings.map(({ path, problem, remedy }) => ({
        at: this.handler.at,
        problem: `"${path}" ${problem}.`,
        remedy,
      })),
    );
    if (first.part === 'params') {
      const unknown = places.filter(({ name }) => !this.pathNames.includes(name));
      for (const { name } of unknown)
        this.say(
          `Its path "${this.path}" has no parameter "${name}".`,
          `Write it as ":${name}" in the path.`,
        );
    }
    this.backtracking.push(...backtrackingIn(this.handler.at, schema));
    return [{ part: first.part, schema }];
  }

  /** The parameters of the path that the handler does not name: its guards may. */
  private restOfPath(places: readonly Place[]): Piece[] {
    if (
      places.some(
        ({ part, name, designType }) =>
          part === 'params' && name === undefined && isDtoClass(designType),
      )
    )
      return [];
    const named = new Set(places.filter(({ part }) => part === 'params').map(({ name }) => name));
    const rest = this.pathNames.filter((name) => !named.has(name));
    if (rest.length === 0) return [];
    const properties = Object.fromEntries(
      rest.map((name) => [name, { type: 'string' as const, description: pathText(name) }]),
    );
    return [{ part: 'params', schema: { type: 'object', properties, required: rest } }];
  }

  private get pathNames(): readonly string[] {
    return [...this.path.matchAll(/[:*](\w+)/g)].flatMap(([, name]) => name ?? []);
  }

  private merged(pieces: readonly Piece[]): JSONSchema7 {
    const properties: Record<string, JSONSchema7Definition> = {};
    const definitions: Record<string, JSONSchema7Definition> = {};
    const required: string[] = [];
    for (const { part, schema } of pieces) {
      for (const [name, property] of Object.entries(schema.properties ?? {})) {
        this.assertFree(name, part);
        this.partOf.set(name, part);
        if (this.isTenant(name, property)) this.filled.add(name);
        else properties[name] = property;
      }
      required.push(...(schema.required ?? []).filter((name) => !this.filled.has(name)));
      this.define(definitions, schema.$defs ?? {});
    }
    return {
      type: 'object',
      properties,
      ...(required.length > 0 && { required }),
      additionalProperties: false,
      ...(Object.keys(definitions).length > 0 && { $defs: definitions }),
    };
  }

  private define(
    definitions: Record<string, JSONSchema7Definition>,
    added: Readonly<Record<string, JSONSchema7Definition>>,
  ): void {
    for (const [name, definition] of Object.entries(added)) {
      const known = definitions[name];
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(definition))
        this.say(`Two different classes named ${name} are in its arguments.`, 'Rename one.');
      definitions[name] = definition;
    }
  }

  private assertFree(name: string, part: RoutePart): void {
    const other = this.partOf.get(name);
    if (other === undefined) return;
    this.say(
      `"${name}" is in its ${WORDS[other]} and in its ${WORDS[part]}, and the arguments of a tool are one object.`,
      'Rename it in one of them.',
    );
  }

  /**
   * Only a text can be filled in by the tenant of the run; any other reserved argument is a finding
   * of its own.
   */
  private isTenant(name: string, property: JSONSchema7Definition): boolean {
    const isText = typeof property === 'object' && property.type === 'string';
    return isText && isReserved(name, TENANT) && isReserved(name, this.reserved);
  }

  /**
   * The arguments as they are: the handler's own pipes build what it takes. Each class only says
   * what is wrong with them.
   */
  private async read(
    pieces: readonly Piece[],
    args: JsonObject,
  ): Promise<{ value: unknown } | { problems: readonly ArgumentProblem[] }> {
    const problems: ArgumentProblem[] = [];
    for (const { codec, schema } of pieces) {
      if (!codec) continue;
      const own = Object.entries(args).filter(([name]) => name in (schema.properties ?? {}));
      const reading = await codec.read(structuredClone(Object.fromEntries(own)));
      if ('problems' in reading)
        problems.push(
          ...reading.problems.filter(({ pointer }) => !this.filled.has(pointer.slice(1))),
        );
    }
    return problems.length > 0 ? { problems } : { value: args };
  }

  private request(
    args: Readonly<Record<string, unknown>>,
    tenant: string,
  ): ReturnType<RouteDeclaration['request']> {
    const given = Object.entries({
      ...args,
      ...Object.fromEntries([...this.filled].map((name) => [name, tenant])),
    });
    const of = (part: RoutePart): [string, unknown][] =>
      given.filter(([name]) => this.partOf.get(name) === part);
    const params = Object.fromEntries(of('params').map(([name, value]) => [name, String(value)]));
    const query = Object.fromEntries(
      of('query').flatMap(([name, value]) => (value === null ? [] : [[name, asQuery(value)]])),
    );
    const path = this.path.replaceAll(/[:*](\w+)/g, (_, name: string) =>
      encodeURIComponent(addressable(params[name] ?? '')),
    );
    return {
      method: this.verb,
      url: `/${path}${searchOf(query)}`,
      params,
      query,
      body: Object.fromEntries(of('body')),
    };
  }

  private say(problem: string, remedy: string): void {
    this.findings.push({ at: this.handler.at, problem, remedy });
  }
}

/** A parameter of a handler that takes arguments: one of them, or a whole part of the request. */
interface Place {
  readonly part: RoutePart;
  readonly index: number;
  readonly name?: string;
  readonly pipes: readonly unknown[];
  readonly designType: unknown;
}

type NamedPlace = Place & { readonly name: string };

const TENANT = ['tenant', 'tenantId'];

const WORDS = { params: 'path', query: 'query', body: 'body' } as const satisfies Record<
  RoutePart,
  string
>;

const ELSEWHERE =
  'Move the work to a method of a provider that both can call, and make that the tool.';

function prototypeOf({ prototype }: Type): object {
  const found: unknown = prototype;
  return isObject(found) ? found : {};
}

function pathOf(target: object): string {
  const given: unknown = Reflect.getMetadata(PATH_METADATA, target);
  const path: unknown = Array.isArray(given) ? given[0] : given;
  return typeof path === 'string' ? path.replaceAll(/^\/+|\/+$|[{}]/g, '') : '';
}

function verbOf(method: unknown): string {
  const verb = typeof method === 'number' ? RequestMethod[method] : undefined;
  return verb === undefined || verb === 'ALL' ? 'GET' : verb;
}

function pathText(name: string): string {
  return `The "${name}" of the path.`;
}

/** An argument of a handler as a tool's: `@ToolParam()` on the same parameter describes it. */
function parameterOf(
  { part, index, name, pipes, designType }: NamedPlace,
  described: NamedParameter | undefined,
): NamedParameter {
  const isWhole = pipes.some((pipe) => isPipe(pipe, ParseIntPipe));
  const isParsed = pipes.some((pipe) => /^Parse\w+Pipe$/.test(pipeName(pipe)));
  const isGiven = pipes.some((pipe) => isPipe(pipe, DefaultValuePipe));
  const description = part === 'params' ? pathText(name) : `The "${name}" of the ${WORDS[part]}.`;
  const type = isWhole
    ? ({ type: 'integer' } as const)
    : designType === undefined
      ? ({ type: 'string' } as const)
      : {};
  const required =
    part === 'params' ||
    (part === 'body' ? !isGiven : isParsed && !isGiven && !pipes.some(isOptional));
  return {
    kind: 'param',
    index,
    name,
    options: { description, ...type, required, ...described?.options },
  };
}

function isPipe(pipe: unknown, type: Type): boolean {
  return pipe === type || pipe instanceof type;
}

function pipeName(pipe: unknown): string {
  return typeof pipe === 'function' ? pipe.name : isObject(pipe) ? pipe.constructor.name : '';
}

/** Nest's parsing pipes keep their options, of which one says that the value may be missing. */
function isOptional(pipe: unknown): boolean {
  const options = isObject(pipe) ? pipe['options'] : undefined;
  return isObject(options) && options['optional'] === true;
}

/** A value as a query parser would have read it: texts, in lists and objects. */
function asQuery(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asQuery);
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([name, child]) => [name, asQuery(child)]));
  return String(value);
}

function searchOf(query: Readonly<Record<string, unknown>>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value])
      search.append(name, typeof one === 'string' ? one : JSON.stringify(one));
  return search.size > 0 ? `?${search.toString()}` : '';
}
