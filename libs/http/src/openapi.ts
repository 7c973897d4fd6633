import { RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants';
import { dtoSchema, Logger } from '@toolloop/core/internal';
import { isObject } from '@toolloop/protocol';
import type * as Swagger from '@nestjs/swagger';
import { ANSWERS, type AnswerName, type AnswerSchema } from './answers.js';
import {
  BODIES,
  CONTROLLERS,
  type DescribedController,
  type Route,
  type RouteAnswer,
} from './routes.js';

/** The package that makes OpenAPI documents, where the application has it. */
type SwaggerPackage = typeof Swagger;

/** A JSON Schema as core makes them of classes. */
type ClassSchema = ReturnType<typeof dtoSchema>['schema'];

/** The token under which the module keeps that the routes are described. */
export const ROUTE_DESCRIPTIONS = Symbol('toolloop:route descriptions');

let described: Promise<boolean> | undefined;

/**
 * Describes every route, body and answer to `@nestjs/swagger`, where the application has it
 * installed, before the application can have its document made. Resolves to whether it has.
 */
export function describeRoutes(): Promise<boolean> {
  return (described ??= ifInstalled(() => import('@nestjs/swagger')).then((swagger) => {
    if (swagger) new RouteDescriptions(swagger).describe();
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
    this.models = Object.entries<AnswerSchema>(ANSWERS).map(([name, schema]) =>
      this.modelOf(name, schema),
    );
  }

  describe(): void {
    for (const body of BODIES) this.addProperties(body, dtoSchema(body).schema);
    for (const controller of CONTROLLERS) this.addController(controller);
  }

  /** A class that stands for an answer, since the package knows classes alone. */
  private modelOf(name: string, schema: AnswerSchema): Type {
    const model = class {
      readonly schema = schema;
    };
    Object.defineProperty(model, 'name', { value: name });
    this.addProperties(model, schema);
    return model;
  }

  private addProperties(
    model: Type,
    { properties = {}, required = [] }: ClassSchema | AnswerSchema,
  ): void {
    for (const [name, schema] of Object.entries<unknown>(properties)) {
      if (!isObject(schema)) continue;
      const told = openApiOf(schema);
      // The package asks each property for a type, and lets a choice of schemas replace that of
      // lists alone.
      const isRequired = required.includes(name);
      const options: object = {
        ...('type' in told ? {} : { type: Array }),
        // an object has members that are required
        ...('required' in told ? { selfRequired: isRequired } : { required: isRequired }),
        ...told,
      };
      this.swagger.ApiProperty(options)(prototypeOf(model), name);
    }
  }

  private addController({ type, tag, routes, isOpen = false }: DescribedController): void {
    this.swagger.ApiTags(tag)(type);
    this.swagger.ApiExtraModels(...this.models)(type);
    const prototype = prototypeOf(type);
    for (const [name, route] of routes) {
      const handler = Object.getOwnPropertyDescriptor(prototype, name);
      if (handler)
        for (const decorate of this.decoratorsOf(route, isPost(handler), isOpen))
          decorate(prototype, name, handler);
    }
  }

  private decoratorsOf(route: Route, hasBody: boolean, isOpen: boolean): MethodDecorator[] {
    const { swagger } = this;
    const { summary, answers, errors = [], headers = [], body } = route;
    const failures = isOpen
      ? errors
      : [...ALWAYS, ...(hasBody ? [400, 403, 413, 415] : []), ...errors];
    return [
      swagger.ApiOperation({ summary }),
      ...(body ? [swagger.ApiBody({ schema: openApiOf(body), required: true })] : []),
      ...headers.map((name) => swagger.ApiHeader({ name, required: false })),
      ...Object.entries(answers).map(([status, answer]) =>
        swagger.ApiResponse({ status: Number(status), ...answerOf(answer) }),
      ),
      ...[...new Set(failures)].map((status) =>
        swagger.ApiResponse({ status, description: ERRORS[status] ?? '', ...this.errorOf(route) }),
      ),
    ];
  }

  private errorOf({ error = 'Error' }: Route): { readonly schema: object } {
    return { schema: refTo(error) };
  }
}

function prototypeOf(type: Type): object {
  const prototype: unknown = Reflect.get(type, 'prototype');
  return isObject(prototype) ? prototype : {};
}

function isPost({ value: handler }: { readonly value?: unknown }): boolean {
  return (
    typeof handler === 'function' &&
    Reflect.getMetadata(METHOD_METADATA, handler) === RequestMethod.POST
  );
}

function answerOf({ description, type, of }: RouteAnswer): object {
  return type === undefined
    ? { description }
    : { description, content: { [type]: { schema: contentOf(of) } } };
}

function contentOf(of: RouteAnswer['of']): object {
  if (of === undefined) return { type: 'string' };
  return typeof of === 'string' ? refTo(of) : { type: 'array', items: refTo(of[0]) };
}

function refTo(name: AnswerName): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

const ANYTHING: AnswerSchema = {
  anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }, { type: 'object' }],
  description: 'Any JSON.',
};

/** A schema in the words of OpenAPI 3.0, which has no type `null`. */
function openApiOf({ type, ...rest }: ClassSchema | AnswerSchema): object {
  if ('$ref' in rest) return { allOf: [rest] };
  const known = Array.isArray(type) ? type.find((name) => name !== 'null') : type;
  if (known !== undefined) return { ...rest, type: known };
  return Object.keys(rest).length === 0 ? ANYTHING : rest;
}
