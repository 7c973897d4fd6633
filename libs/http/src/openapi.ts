import type { Type } from '@nestjs/common';
import { Logger } from '@toolloop/core/internal';
import { isObject } from '@toolloop/protocol';
import {
  ANSWERS,
  BODIES,
  type FormSchema,
  type Route,
  type RouteAnswer,
  type RouteKey,
  ROUTES,
} from '@toolloop/protocol/routes';
import type * as Swagger from '@nestjs/swagger';
import { routeOf } from './route.decorator.js';

/** The token under which the module keeps that the routes are described. */
export const ROUTE_DESCRIPTIONS = Symbol('toolloop:route descriptions');

/** The package that makes OpenAPI documents, where the application has it. */
type SwaggerPackage = typeof Swagger;

let described: Promise<boolean> | undefined;

/**
 * Describes every route, body and answer to `@nestjs/swagger`, where the application has it
 * installed, before the application can have its document made. Resolves to whether it has.
 */
export function describeRoutes(controllers: readonly Type[]): Promise<boolean> {
  return (described ??= ifInstalled(() => import('@nestjs/swagger')).then((swagger) => {
    if (swagger) new RouteDescriptions(swagger).describe(controllers);
    return swagger !== undefined;
  }));
}

/** Loads a package that is optional; undefined where it is not installed. */
export async function ifInstalled<Package>(
  load: () => Promise<Package>,
): Promise<Package | undefined> {
  try {
    return await load();
  } catch (error) {
    if (!isMissing(error))
      new Logger('ToolLoopHttpModule').warn(
        error,
        '@nestjs/swagger cannot be loaded, so the routes have no description.',
      );
    return undefined;
  }
}

function isMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND')
  );
}

/** The statuses that any route may answer with, in words. */
const ERRORS: Readonly<Record<number, string>> = {
  400: 'The request cannot be read, or not be run as it is.',
  401: 'It is not known who asks.',
  403: 'This person may not do this, or a page of another origin has sent it.',
  404: 'There is none, or it is not the caller’s.',
  405: 'A HEAD would run something for no one.',
  409: 'It was answered, has expired or was withdrawn, or something has changed meanwhile.',
  410: 'The events that are asked for are not kept any more.',
  413: 'The body is too large.',
  415: 'The body is no JSON.',
  429: 'Too many requests or open streams.',
  502: 'The model failed.',
  503: 'The storage or the audit does not answer, or the run was stopped.',
};

/** The failures of every route with a caller. */
const ALWAYS = [401, 429, 503];

/** Writes the descriptions, by the decorators of the package. */
class RouteDescriptions {
  private readonly models: Type[];

  constructor(private readonly swagger: SwaggerPackage) {
    this.models = Object.entries<FormSchema>({ ...ANSWERS, ...BODIES }).map(([name, schema]) =>
      this.modelOf(name, schema),
    );
  }

  describe(controllers: readonly Type[]): void {
    for (const controller of controllers) this.addController(controller);
  }

  /** A class that stands for a schema, since the package knows classes alone. */
  private modelOf(name: string, schema: FormSchema): Type {
    const model = class {
      readonly schema = schema;
    };
    Object.defineProperty(model, 'name', { value: name });
    const { properties = {}, required = [] } = schema;
    for (const [member, of] of Object.entries(properties)) {
      const told = '$ref' in of ? { allOf: [of] } : toOpenApi(of);
      // The package asks each property for a type, and lets a choice of schemas replace that of
      // lists alone.
      const isRequired = required.includes(member);
      const options: object = {
        ...('type' in told ? {} : { type: Array }),
        // an object has members that are required
        ...('required' in told ? { selfRequired: isRequired } : { required: isRequired }),
        ...told,
      };
      this.swagger.ApiProperty(options)(prototypeOf(model), member);
    }
    return model;
  }

  private addController(type: Type): void {
    this.swagger.ApiExtraModels(...this.models)(type);
    const prototype = prototypeOf(type);
    const handlers = Object.entries(Object.getOwnPropertyDescriptors(prototype));
    const routed = handlers.flatMap(([name, handler]) => {
      const key = routeOf(handler.value);
      return key ? [{ name, handler, key }] : [];
    });
    this.swagger.ApiTags(...new Set(routed.map(({ key }) => tagOf(key))))(type);
    for (const { name, handler, key } of routed)
      for (const decorate of this.decoratorsOf(key, ROUTES[key]))
        decorate(prototype, name, handler);
  }

  private decoratorsOf(key: RouteKey, route: Route): MethodDecorator[] {
    const { swagger } = this;
    const { summary, answers, errors = [], headers = [], body, isOpen = false } = route;
    const hasBody = key.startsWith('POST ');
    const isChecked = (route.query ?? route.params) !== undefined;
    const failures = isOpen
      ? errors
      : [...ALWAYS, ...(hasBody ? [400, 403, 413, 415] : isChecked ? [400] : []), ...errors];
    const error = toOpenApi(refTo(route.error ?? 'Error'));
    return [
      swagger.ApiOperation({ summary }),
      ...(body ? [swagger.ApiBody({ schema: bodyOf(body), required: true })] : []),
      ...this.parametersOf(key, route),
      ...headers.map((name) => swagger.ApiHeader({ name, required: false })),
      ...Object.entries(answers).map(([status, answer]) =>
        swagger.ApiResponse({ status: Number(status), ...answerOf(answer) }),
      ),
      ...[...new Set(failures)].map((status) =>
        swagger.ApiResponse({ status, description: ERRORS[status] ?? '', schema: error }),
      ),
    ];
  }

  /** The segments of the path and the members of the query. */
  private parametersOf(key: RouteKey, { params, query = {} }: Route): MethodDecorator[] {
    const { properties = {}, required = [] } = query;
    const segments = [...key.matchAll(/:(\w+)/g)].map(([, name = '']) =>
      this.swagger.ApiParam({
        name,
        schema: toOpenApi(params?.properties?.[name] ?? { type: 'string' }),
      }),
    );
    const members = Object.entries(properties).map(([name, form]) =>
      this.swagger.ApiQuery({
        name,
        required: required.includes(name),
        schema: toOpenApi(form),
      }),
    );
    return [...segments, ...members];
  }
}

/** The parts of a document that are not named as the first segment of their paths. */
const TAGS: Readonly<Record<string, string>> = {
  ai: 'chat protocols',
  v1: 'chat protocols',
  rehearsals: 'runs',
  approvals: 'pending',
  questions: 'pending',
  explain: 'operators',
  policies: 'operators',
  sources: 'operators',
  'view-as': 'operators',
  audit: 'operators',
};

function tagOf(key: RouteKey): string {
  const [, segment = ''] = key.split('/');
  return TAGS[segment] ?? segment;
}

function prototypeOf(type: Type): object {
  const prototype: unknown = Reflect.get(type, 'prototype');
  return isObject(prototype) ? prototype : {};
}

function answerOf({ description, type, schema }: RouteAnswer): object {
  return type === undefined
    ? { description }
    : { description, content: { [type]: { schema: schema && toOpenApi(schema) } } };
}

function bodyOf(body: NonNullable<Route['body']>): object {
  return toOpenApi(typeof body === 'string' ? refTo(body) : body);
}

function refTo(name: string): FormSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** A schema without what is no part of a document. */
function toOpenApi({ texts: _texts, items, properties, ...rest }: FormSchema): object {
  return {
    ...rest,
    ...(items && { items: toOpenApi(items) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, form]) => [name, toOpenApi(form)]),
      ),
    }),
  };
}
