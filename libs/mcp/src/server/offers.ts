import type { Type } from '@nestjs/common';
import type { DiscoveryService } from '@nestjs/core';
import {
  isNotOmitted,
  namespaceIn,
  nearestName,
  providerOptionsOf,
  toolMethodsOf,
} from '@toolloop/core/internal';
import { ConfigurationError, type Finding } from '@toolloop/protocol';
import { type OfferDeclaration, offerOn } from './offer-decorators.js';

/**
 * The prompts, resources and completions of all providers, by the names under which clients know
 * them.
 */
export class Offers {
  prompts: ReadonlyMap<string, Offer<'prompt'>> = new Map();
  resources: readonly Offer<'resource'>[] = [];
  completions: readonly Offer<'completion'>[] = [];
  /** The declared ids of all of them: none is a tool for clients. */
  ids: ReadonlySet<string> = new Set();
  private templates: ReadonlyMap<Offer<'resource'>, UriTemplate> = new Map();

  constructor(private readonly discovery: Pick<DiscoveryService, 'getProviders'>) {}

  /**
   * Finds all of them, once the providers are there.
   *
   * @throws {ConfigurationError} For wrong declarations, all of them at once.
   */
  explore(): void {
    const offers = placedClasses(this.discovery.getProviders()).flatMap(offersOf);
    const ofKind = <Kind extends OfferDeclaration['kind']>(kind: Kind): Offer<Kind>[] =>
      offers.filter((offer) => isOf(offer, kind));
    this.resources = ofKind('resource');
    this.completions = ofKind('completion');
    this.prompts = new Map(ofKind('prompt').map((offer) => [nameOf(offer), offer]));
    this.ids = new Set(offers.map(({ declaredId }) => declaredId));
    this.templates = new Map(
      this.resources.map((offer) => [offer, new UriTemplate(offer.options.uri)]),
    );
    const findings = [
      ...offers.flatMap(argumentFindings),
      ...sharedFindings(ofKind('prompt'), nameOf, 'prompt'),
      ...sharedFindings(this.resources, ({ options }) => options.uri, 'resource'),
      ...this.resources.flatMap((offer) => this.uriFindings(offer)),
      ...this.completions.flatMap((offer) => this.completionFindings(offer)),
    ];
    if (findings.length > 0) throw new ConfigurationError(findings);
  }

  /**
   * Finds the resource at an address; one with exactly this address before a template that fits it.
   */
  resourceAt(uri: string): FoundResource | undefined {
    if (uri.length > LONGEST_URI) return undefined;
    const exact = this.resources.find(({ options }) => options.uri === uri);
    if (exact) return { offer: exact, args: {} };
    for (const [offer, template] of this.templates) {
      const args = template.match(uri);
      if (args) return { offer, args };
    }
    return undefined;
  }

  /** Tells whether a resource is a template of addresses. */
  isTemplate(offer: Offer<'resource'>): boolean {
    return (this.templates.get(offer)?.names.length ?? 0) > 0;
  }

  private uriFindings(offer: Offer<'resource'>): Finding[] {
    const { at, parameters } = offer;
    if (isUi(offer.options.uri) || offer.options.csp) return uiFindings(offer);
    const template = this.templates.get(offer);
    if (!template || template.problem !== undefined)
      return [{ at, problem: template?.problem ?? '', remedy: URI_REMEDY }];
    const names = new Set(parameters.map(({ name }) => name));
    const unknown = template.names.filter((name) => !names.has(name));
    const unfilled = parameters.filter(
      ({ name, isRequired }) => isRequired && name !== undefined && !template.names.includes(name),
    );
    return [
      ...unknown.map((name) => ({
        at,
        problem: `Its uri has the variable "${name}", and the method has no such argument.`,
        remedy: `Add a parameter: @ToolParam('${name}', { description }).`,
      })),
      ...unfilled.map(({ name = '' }) => ({
        at,
        problem: `It needs the argument "${name}", which its uri does not have.`,
        remedy: `Write {${name}} into the uri, or make the argument optional.`,
      })),
    ];
  }

  private completionFindings({
    at,
    options: { of, argument },
    parameters,
  }: Offer<'completion'>): Finding[] {
    const target = this.prompts.get(of) ?? this.resources.find(({ options }) => options.uri === of);
    const named = [...this.prompts.keys(), ...this.resources.map(({ options }) => options.uri)];
    if (!target)
      return [
        {
          at,
          problem: `It completes "${of}", which is no prompt and no resource.`,
          remedy: nearestName(of, named),
        },
      ];
    const known = target.parameters.flatMap(({ name }) => name ?? []);
    const problem = `It completes the argument "${argument}", which ${of} does not have.`;
    const missing = known.includes(argument)
      ? []
      : [{ at, problem, remedy: nearestName(argument, known) }];
    const others = parameters.filter(({ name }) => name !== undefined && name !== TYPED);
    return [
      ...missing,
      ...(parameters.some(({ name }) => name === TYPED)
        ? []
        : [
            {
              at,
              problem: 'It takes nothing that was typed.',
              remedy: "Add a parameter: @ToolParam('value', { description }).",
            },
          ]),
      ...others.flatMap(({ name = '', isRequired }) =>
        otherFindings(name, { at, isRequired, of, known }),
      ),
    ];
  }
}

/** A prompt, a resource or a completion that a method of a provider makes. */
export type Offer<Kind extends OfferDeclaration['kind'] = OfferDeclaration['kind']> = Extract<
  OfferDeclaration,
  { readonly kind: Kind }
> & {
  /** The id by which policy and audit know it, and sessions call it. */
  readonly declaredId: string;
  /** Class and method, for findings. */
  readonly at: string;
  readonly parameters: readonly OfferParameter[];
};

/** A resource at an address: the resource, and the variables of its template. */
export interface FoundResource {
  readonly offer: Offer<'resource'>;
  readonly args: Readonly<Record<string, string>>;
}

/** A `@ToolParam` of the method, or another parameter that takes arguments. */
interface OfferParameter {
  /** Undefined for a `@ToolInput()`, which takes all arguments as one object. */
  readonly name: string | undefined;
  readonly isText: boolean;
  readonly isRequired: boolean;
}

/** Tells whether clients show what stands at an address as a page (MCP Apps). */
export function isUi(uri: string): boolean {
  return uri.startsWith('ui:');
}

/** The argument of a completion's method that has what was typed. */
export const TYPED = 'value';

/** Returns the name under which clients know a prompt or a resource. */
export function nameOf({ options, declaredId }: Offer<'prompt' | 'resource'>): string {
  return options.as ?? declaredId;
}

const LONGEST_URI = 2_048;
const URI_REMEDY =
  "Give a scheme, and variables with text between them: 'orders://{number}/lines/{line}'.";

/**
 * A template of addresses, whose variables are in braces: each stands for one part of a path,
 * percent-encoded.
 */
class UriTemplate {
  readonly names: readonly string[];
  /** The reason why it is none. */
  readonly problem: string | undefined;
  private readonly pattern: RegExp;

  constructor(uri: string) {
    const parts = uri.split(/(\{[A-Za-z][A-Za-z0-9_]*\})/);
    this.names = parts.filter((_, index) => index % 2 === 1).map((part) => part.slice(1, -1));
    // A variable ends at the text behind it, or at the end of its part of the path, so that a match
    // takes linear time.
    const source = parts.map((part, index) =>
      index % 2 === 1 ? VARIABLE : part.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`),
    );
    this.pattern = new RegExp(`^${source.join('')}$`);
    this.problem = problemOf(uri, parts, this.names);
  }

  /** Returns the variables of an address that fits; undefined for any other. */
  match(uri: string): Readonly<Record<string, string>> | undefined {
    const found = this.names.length > 0 ? this.pattern.exec(uri) : null;
    if (!found) return undefined;
    try {
      return Object.fromEntries(
        this.names.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? '')]),
      );
    } catch {
      return undefined; // a broken percent-encoding
    }
  }
}

const VARIABLE = '([^/?#]+)';

function problemOf(
  uri: string,
  parts: readonly string[],
  names: readonly string[],
): string | undefined {
  const texts = parts.filter((_, index) => index % 2 === 0);
  if (!/^[a-z][a-z0-9+.-]*:/i.test(uri)) return `Its uri has no scheme: ${JSON.stringify(uri)}.`;
  if (uri.length > LONGEST_URI) return `Its uri has more than ${LONGEST_URI} characters.`;
  if (texts.some((text) => /[{}\s]/.test(text)))
    return `Its uri has a brace that begins no variable, or a space: ${JSON.stringify(uri)}.`;
  if (texts.slice(1, -1).some((text) => !/[/?#]/.test(text)))
    return 'Between two variables of its uri there is no "/", "?" or "#".';
  return new Set(names).size < names.length ? 'A variable of its uri occurs twice.' : undefined;
}

/** A client asks for a page by the address that a tool names, so that it has no variables. */
function uiFindings({ at, parameters, options: { uri, csp = {} } }: Offer<'resource'>): Finding[] {
  if (!isUi(uri))
    return [
      {
        at,
        problem: 'It has a csp, and is no page.',
        remedy: "Begin its uri with ui: — 'ui://orders/card'.",
      },
    ];
  const wrong = Object.values(csp)
    .flat()
    .filter((origin: unknown) => typeof origin !== 'string' || !ORIGIN.test(origin));
  return [
    ...(/[{}\s]/.test(uri) || parameters.length > 0
      ? [
          {
            at,
            problem: 'It is a page, and has arguments.',
            remedy: 'Let the tool return what the page shows: its client hands it over.',
          },
        ]
      : []),
    ...wrong.map((origin) => ({
      at,
      problem: `Its csp has ${JSON.stringify(origin)}, which is no origin.`,
      remedy: "Write scheme and name: 'https://api.example.com', or 'https://*.example.com'.",
    })),
  ];
}

/** One origin, without anything that would end it in a header. */
const ORIGIN = /^(?:https|wss):\/\/(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d{1,5})?$/;

function isOf<Kind extends OfferDeclaration['kind']>(
  offer: Offer,
  kind: Kind,
): offer is Offer<Kind> {
  return offer.kind === kind;
}

function classOf(metatype: unknown, instance: unknown): Type[] {
  const made = typeof instance === 'object' && instance !== null ? instance.constructor : metatype;
  return isType(made) ? [made] : [];
}

function isType(value: unknown): value is Type {
  return typeof value === 'function' && typeof value.prototype === 'object';
}

/** A class and the first part of the ids of its tools: two modules may provide it under two. */
interface PlacedClass {
  readonly type: Type;
  readonly namespace: string;
}

function placedClasses(providers: ReturnType<DiscoveryService['getProviders']>): PlacedClass[] {
  const placed = providers.flatMap((wrapper) =>
    classOf(wrapper.metatype, wrapper.instance)
      .filter((type) => providerOptionsOf(type) && isNotOmitted({ type, wrapper }))
      .map((type) => ({ type, namespace: namespaceIn(type, wrapper) })),
  );
  return placed.filter(
    (one, index) =>
      placed.findIndex(
        ({ type, namespace }) => type === one.type && namespace === one.namespace,
      ) === index,
  );
}

function offersOf({ type, namespace }: PlacedClass): Offer[] {
  const provider = providerOptionsOf(type);
  const prototype: unknown = type.prototype;
  if (!provider || typeof prototype !== 'object' || prototype === null) return [];
  return toolMethodsOf(type).flatMap(({ property, options, parameters, designTypes }): Offer[] => {
    const offer = offerOn(prototype, property);
    if (!offer) return [];
    const declaredId = `${namespace}__${options?.name ?? property}`;
    const taken = parameters.flatMap((parameter): OfferParameter[] => {
      if (parameter.kind === 'context') return [];
      if (parameter.kind === 'input') return [{ name: undefined, isText: false, isRequired: true }];
      const { type: said, enum: values, required, default: value } = parameter.options;
      const isText =
        said === undefined
          ? values !== undefined || designTypes[parameter.index] === String
          : said === 'string';
      return [{ name: parameter.name, isText, isRequired: required ?? value === undefined }];
    });
    return [{ ...offer, declaredId, at: `${type.name}.${property}`, parameters: taken }];
  });
}

function argumentFindings({ at, parameters }: Offer): Finding[] {
  return parameters.flatMap(({ name, isText }) => {
    if (name === undefined)
      return [
        {
          at,
          problem: 'It takes its arguments as one object.',
          remedy: 'Name them: @ToolParam(name, { description }).',
        },
      ];
    const remedy = "Set its type: 'string', and read the text in the method.";
    return isText
      ? []
      : [
          {
            at,
            problem: `Its argument "${name}" is no text, and clients of MCP give texts here.`,
            remedy,
          },
        ];
  });
}

function sharedFindings<One extends Offer>(
  offers: readonly One[],
  keyOf: (offer: One) => string,
  kind: string,
): Finding[] {
  return offers.flatMap((offer, index) => {
    const key = keyOf(offer);
    const first = offers.findIndex((other) => keyOf(other) === key);
    const problem = `It is the ${kind} "${key}", and so is ${offers[first]?.at}.`;
    return first === index
      ? []
      : [{ at: offer.at, problem, remedy: 'Give one of them another name.' }];
  });
}

interface Completed {
  readonly at: string;
  readonly isRequired: boolean;
  readonly of: string;
  readonly known: readonly string[];
}

function otherFindings(name: string, { at, isRequired, of, known }: Completed): Finding[] {
  if (!known.includes(name))
    return [
      {
        at,
        problem: `Its argument "${name}" is none of ${of}, so that it is never given.`,
        remedy: nearestName(name, known),
      },
    ];
  const problem = `Its argument "${name}" is required, and a person may type the arguments in any order.`;
  return isRequired
    ? [{ at, problem, remedy: 'Make it optional: @ToolParam(name, { required: false }).' }]
    : [];
}
