import { BadRequestException, type PipeTransform } from '@nestjs/common';
import { isRecord } from '@toolloop/protocol';
import {
  type Asks,
  BODIES,
  type FormSchema,
  type Route,
  type RouteKey,
  ROUTES,
} from '@toolloop/protocol/routes';
import { tellBrokenRule } from './broken-rules.js';
import type { HttpRequest } from './http-options.js';

/**
 * Reads what a request asks of its route: the segments of its path and the members of its query and
 * of its body, as the table of routes has them.
 *
 * @throws {BadRequestException} For what does not fit, with one text for each place.
 */
export function readRequest<Key extends RouteKey>(
  key: Key,
  { params, query, body }: RequestParts,
): Asks<Key> {
  const route: Route = ROUTES[key];
  const asked = {
    ...readParams(route, params),
    ...(route.query && readMembers(route.query, parseTexts(route.query, query), route)),
    ...(typeof route.body === 'string' && readMembers(BODIES[route.body], body ?? {}, route)),
  };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its forms were checked above
  return asked as Asks<Key>;
}

/** A request with the parts in which a route's values are. */
export interface RequestParts extends Pick<HttpRequest, 'body'> {
  readonly params?: unknown;
  readonly query?: unknown;
}

type Members = Readonly<Record<string, unknown>>;

function readParams({ params: form }: Route, given: unknown): Members {
  const params = isRecord(given) ? given : {};
  for (const name of Object.keys(form?.properties ?? {}))
    if (!/^-?\d+$/.test(String(params[name])))
      throw new BadRequestException([`${name} must be a whole number`]);
  return form ? parseTexts(form, params) : params;
}

/** Makes values of the texts of an address, as far as the form asks for others. */
function parseTexts({ properties = {} }: FormSchema, texts: unknown): Members {
  return Object.fromEntries(
    Object.entries(isRecord(texts) ? texts : {}).map(([name, text]) => [
      name,
      typeof text === 'string' ? parseText(properties[name]?.type, text) : text,
    ]),
  );
}

function parseText(type: FormSchema['type'], text: string): unknown {
  if (type === 'integer') return text.trim() === '' ? text : Number(text);
  if (type === 'array') return text.split(',');
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

/**
 * Checks the body of a route that is in no table by its form, in the same words.
 *
 * @example
 * const WAY_IN = object({ name: TEXT, password: TEXT });
 *
 * @Post() signIn(@Body(new FormBody(WAY_IN)) body: ValueOf<typeof WAY_IN>) {}
 */
export class FormBody implements PipeTransform<unknown> {
  constructor(private readonly form: FormSchema) {}

  /** @throws {BadRequestException} For what does not fit, with one text for each place. */
  transform(body: unknown): Members {
    return readMembers(this.form, body ?? {}, {});
  }
}

function readMembers(
  form: FormSchema,
  given: unknown,
  { dropsOthers = false }: Pick<Route, 'dropsOthers'>,
): Members {
  if (!isRecord(given)) throw new BadRequestException(['The body must be an object']);
  const problems = findProblems(form, { given, dropsOthers });
  if (problems.length > 0) throw new BadRequestException(problems);
  return pickNamed(form, given);
}

/** The members that a form names, in objects within too. */
function pickNamed({ properties = {} }: FormSchema, given: Members): Members {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, form]) => {
      const { [name]: value } = given;
      if (value === undefined) return [];
      return [[name, form.properties && isRecord(value) ? pickNamed(form, value) : value]];
    }),
  );
}

/** An object within a request. */
interface Within {
  readonly given: Members;
  readonly dropsOthers: boolean;
  /** Its place, with a dot behind it. @default '' */
  readonly place?: string;
}

/**
 * The mistakes in an object, at most one for each place: members that have no name there, and the
 * most telling rule that a value breaks.
 */
function findProblems(
  form: FormSchema,
  { given, dropsOthers, place = '' }: Within,
): readonly string[] {
  const { properties = {}, required = [] } = form;
  const others = dropsOthers
    ? []
    : Object.keys(given).filter((name) => !Object.hasOwn(properties, name));
  return [
    ...others.map((name) => `property ${place}${name} should not exist`),
    ...Object.entries(properties).flatMap(([name, member]) => {
      const { [name]: value } = given;
      const isRequired = required.includes(name);
      const at = place + name;
      if (value === undefined && !isRequired) return [];
      if (member.anyOf)
        return isRequired && (value ?? undefined) === undefined
          ? [`${at} should not be null or undefined`]
          : [];
      if (member.properties && isRecord(value))
        return findProblems(member, { given: value, dropsOthers, place: `${at}.` });
      return tellBrokenRule(member, at, value) ?? [];
    }),
  ];
}
