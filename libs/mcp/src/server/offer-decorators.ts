import type { ContentBlock } from '@modelcontextprotocol/server';
import { applyDecorators } from '@nestjs/common';
import { LlmTool, type LlmToolOptions } from '@toolloop/core';

/** The options of what an MCP client reads: those of a tool, whose effect is that it only reads. */
export interface OfferOptions extends Pick<
  LlmToolOptions,
  'name' | 'description' | 'labels' | 'canCall' | 'when' | 'timeoutMs' | 'concurrency' | 'execution'
> {
  /** The title that people are shown. @default its name */
  readonly title?: string;
}

/** A message of a prompt. */
export interface PromptTurn {
  readonly role: 'user' | 'assistant';
  /** A text, or a block as the protocol has it: `{ type: 'resource', resource: { uri, text } }`. */
  readonly content: string | ContentBlock;
}

/** The options of `@LlmPrompt()`. */
export interface LlmPromptOptions extends OfferOptions {
  /** The name that clients see. @default the declared id: `desk__greeting` */
  readonly as?: string;
}

/** The options of `@LlmResource()`. `output` or `reveal` says what may leave it, as with a tool. */
export type LlmResourceOptions = ResourceOptions &
  (
    | { readonly output: NonNullable<LlmToolOptions['output']>; readonly reveal?: undefined }
    | { readonly reveal: NonNullable<LlmToolOptions['reveal']>; readonly output?: undefined }
  );

interface ResourceOptions extends OfferOptions {
  /**
   * The address of the resource, or a template of addresses: `orders://{number}`. Each variable is
   * a `@ToolParam` of the method.
   */
  readonly uri: string;
  /** The name that clients see. @default the declared id: `desk__manual` */
  readonly as?: string;
  /**
   * The type of what the method returns. @default 'text/html;profile=mcp-app' at `ui:`,
   * 'application/json' with an `output`, else 'text/plain'
   */
  readonly mimeType?: string;
  /**
   * The origins that the page of a `ui:` resource may use. @default none: what it shows is all in
   * it
   */
  readonly csp?: UiOrigins;
}

/**
 * The origins that a page which a client shows may use, as MCP Apps has them: the client makes its
 * content security policy of them.
 */
export interface UiOrigins {
  /** Origins that its scripts may ask: `https://api.example.com`. */
  readonly connectDomains?: readonly string[];
  /** Origins of its scripts, styles, images and fonts. */
  readonly resourceDomains?: readonly string[];
  /** Origins of the frames in it. */
  readonly frameDomains?: readonly string[];
  /** Origins that its relative addresses may begin at. */
  readonly baseUriDomains?: readonly string[];
}

/** The options of `@LlmCompletion()`. */
export interface LlmCompletionOptions extends Omit<OfferOptions, 'title' | 'description'> {
  /** The name of a prompt, or the template of a resource. */
  readonly of: string;
  /** The argument of it that is completed. */
  readonly argument: string;
}

/** The declaration of something that MCP clients read, on its method. */
export type OfferDeclaration =
  | { readonly kind: 'prompt'; readonly options: LlmPromptOptions }
  | { readonly kind: 'resource'; readonly options: LlmResourceOptions }
  | { readonly kind: 'completion'; readonly options: LlmCompletionOptions };

/** The declarations by the prototype of their class, and their method. */
const DECLARED = new WeakMap<object, Map<string, OfferDeclaration>>();

/**
 * Returns what a method of a class, its own or an inherited one, offers to MCP clients, if it does.
 */
export function offerOn(prototype: object, property: string): OfferDeclaration | undefined {
  for (let level: object | null = prototype; level; level = Reflect.getPrototypeOf(level)) {
    const declared = DECLARED.get(level)?.get(property);
    if (declared) return declared;
  }
  return undefined;
}

/**
 * Marks a method that makes a prompt, which the people of an MCP client choose. Its `@ToolParam`s
 * are the arguments of the prompt, all of them texts. It returns a text, or a list of
 * {@link PromptTurn}; images and files stand behind that with `attach`.
 *
 * It is a tool that only reads and is unlisted: policy allows it by its id, and every use passes
 * guards, checks, budgets and the audit of a call.
 *
 * @example
 * @LlmPrompt({ description: 'Asks for a summary of an order.' }) summary(@ToolParam('number', {
 *   description: 'The number of the order' }) number: string): string { return
 *   `Summarise order ${number} in three sentences.`; }
 */
export function LlmPrompt(options: LlmPromptOptions): MethodDecorator {
  const { as: _as, title: _title, ...tool } = options;
  return offered(LlmTool({ ...tool, ...READ, reveal: 'all' }), { kind: 'prompt', options });
}

/**
 * Marks a method that reads a resource, or every resource of a template, for MCP clients. What it
 * returns is projected like the result of a tool; a file is
 * `attach(null, { type: 'file', data, mediaType })`, and `null` means that there is no such
 * resource.
 *
 * It is a tool that only reads and is unlisted: policy allows it by its id, and every reading
 * passes guards, checks, budgets and the audit of a call.
 *
 * @example
 * @LlmResource({ uri: 'orders://{number}', description: 'An order.', output: Order })
 *   order(@ToolParam('number', { description: 'The number of the order' }) number: string):
 *   Promise<Order | null> { return this.orders.find(number); }
 */
export function LlmResource(options: LlmResourceOptions): MethodDecorator {
  const { as: _as, title: _title, uri: _uri, mimeType: _type, csp: _csp, ...tool } = options;
  return offered(LlmTool({ ...tool, ...READ }), { kind: 'resource', options });
}

/**
 * Marks a method that completes an argument of a prompt or of a resource's template while a person
 * types it. Its parameter `value` is what was typed; others, by the names of the other arguments
 * and not required, are those that are there already. It returns a list of texts, the best first.
 *
 * @example
 * @LlmCompletion({ of: 'orders://{number}', argument: 'number' }) numbers(@ToolParam('value', {
 *   description: 'The beginning of a number' }) value: string): Promise<string[]> { return
 *   this.orders.numbersFrom(value); }
 */
export function LlmCompletion(options: LlmCompletionOptions): MethodDecorator {
  const { of, argument, ...tool } = options;
  const description = `Completes the argument "${argument}" of ${of}.`;
  return offered(LlmTool({ ...tool, ...READ, description, reveal: 'all' }), {
    kind: 'completion',
    options,
  });
}

const READ = { effect: 'read_only', unlisted: true } as const;

function offered(asTool: MethodDecorator, declaration: OfferDeclaration): MethodDecorator {
  return applyDecorators(asTool, (prototype: object, property: string | symbol) => {
    const declared = DECLARED.get(prototype) ?? new Map<string, OfferDeclaration>();
    DECLARED.set(prototype, declared.set(String(property), declaration));
  });
}
