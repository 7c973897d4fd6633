import type { Type } from '@nestjs/common';
import type { Finding } from '@toolloop/protocol';
import { LLM_TOOL_METADATA, markedFunctionsOf } from '../decorators/llm-tool.decorator.js';
import { chainOf, type ToolMethod } from '../decorators/tool-metadata.js';
import { asObject, ENHANCERS, enhancersOf, functionOn, handlerOf } from './enhancers.js';
import { isClass } from './provider-classes.js';

/**
 * Finds the guards and other metadata that a method has lost. Nest reads them off the function that
 * answers in the end. A tool is declared for the name of a method, and so outlives a function that
 * a subclass overrides or a decorator replaces.
 */
export function lostMetadataFindings(
  type: Type | undefined,
  { property }: Pick<ToolMethod, 'property'>,
): Finding[] {
  const answering = type && handlerOf(type, property);
  if (!answering) return [];
  const at = `${type.name}.${property}`;
  const [own = {}, ...overridden] = declaringLevels(type, property);
  return [
    ...replacedFunctions(own, property).flatMap((replaced) =>
      wrappedFindings(at, replaced, answering),
    ),
    ...overridden.flatMap((level) => overrideFindings(at, level, property, answering)),
  ];
}

/** The prototypes from the one whose function answers to the one that declares the tool. */
function declaringLevels({ prototype }: Type, property: string): readonly object[] {
  const levels = chainOf(asObject(prototype))
    .toReversed()
    .filter((level) => functionOn(level, property));
  const declaring = levels.findIndex((level) =>
    Reflect.hasOwnMetadata(LLM_TOOL_METADATA, level, property),
  );
  return declaring === -1 ? levels : levels.slice(0, declaring + 1);
}

/** The functions that stood for a method when it was marked as a tool. */
function replacedFunctions(level: object, property: string): readonly object[] {
  return markedFunctionsOf(level, property).filter((one) => one !== functionOn(level, property));
}

function wrappedFindings(at: string, replaced: object, answering: object): Finding[] {
  const lost = [...lostEnhancers(replaced, answering), ...lostKeys(replaced, answering)];
  return [...new Set(lost)].map((name) => ({
    at,
    problem: `A decorator puts another function in the place of the method, and Nest does not apply ${name} to it.`,
    remedy: `Write the decorator of ${name} above the one that replaces the method.`,
  }));
}

function overrideFindings(
  at: string,
  level: object,
  property: string,
  answering: object,
): Finding[] {
  const before = [functionOn(level, property) ?? {}, ...markedFunctionsOf(level, property)];
  const lost = before.flatMap((one) => lostByOverride(one, answering));
  const overridden = `${level.constructor.name}.${property}`;
  return [...new Set(lost)].map((name) => ({
    at,
    problem: `It overrides ${overridden}, and Nest does not apply ${name} to an override.`,
    remedy: `Repeat the decorator of ${name} on ${at}, or mark ${at} with an @LlmTool() of its own.`,
  }));
}

/** An override that has guards of its own has chosen them, and so for each kind of enhancer. */
function lostByOverride(from: object, to: object): readonly string[] {
  const kinds = ENHANCERS.filter((key) => !Reflect.hasMetadata(key, to));
  return [...kinds.flatMap((key) => enhancersOf(from, key).map(nameOf)), ...lostKeys(from, to)];
}

/** The names of the enhancers that stand on one function and not on the other. */
function lostEnhancers(from: object, to: object): readonly string[] {
  return ENHANCERS.flatMap((key) => {
    const kept = enhancersOf(to, key);
    return enhancersOf(from, key)
      .filter((enhancer) => !kept.includes(enhancer))
      .map(nameOf);
  });
}

/** The keys of other metadata that stands on one function alone, such as the roles of a guard. */
function lostKeys(from: object, to: object): readonly string[] {
  return (Reflect.getMetadataKeys(from) as unknown[])
    .filter((key) => !ENHANCERS.some((known) => known === key))
    .filter((key) => !DECIDES_NOTHING.test(String(key)) && !Reflect.hasMetadata(key, to))
    .map((key) => `metadata ${JSON.stringify(String(key))}`);
}

/** Metadata of the compiler, of Toolloop, and of documentation. */
const DECIDES_NOTHING = /^(design:|toolloop:|swagger\/)/u;

function nameOf(enhancer: unknown): string {
  return isClass(enhancer) ? enhancer.name : asObject(enhancer).constructor.name;
}
