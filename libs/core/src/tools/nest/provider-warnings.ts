import type { Type } from '@nestjs/common';
import { INQUIRER, REQUEST } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { type Finding, isObject } from '@toolloop/protocol';
import { inWords } from '../../findings/options.js';
import { classOf } from '../../schema/exposed-properties.js';
import { classesOfProvider, isClass } from './provider-classes.js';
import { isSingleton, isThere } from './provider-instances.js';

/**
 * Finds what keeps tools out of the catalog and may be meant so: nothing or an alias in the place
 * of their class, a list that holds them, and a factory that runs in a request only.
 */
export function providerWarnings(
  providers: readonly InstanceWrapper<object>[],
  declaresTools: (type: Type) => boolean,
): Finding[] {
  const own = providers.filter(({ isAlias }) => !isAlias);
  const found = new Set(
    own.filter(isThere).flatMap((wrapper) => classesOfProvider(wrapper).find(declaresTools) ?? []),
  );
  const isMissing = (type: Type | undefined): type is Type =>
    type !== undefined && declaresTools(type) && !found.has(type);
  const standsApart = ({ isAlias, token, instance }: InstanceWrapper): boolean =>
    isAlias &&
    isClass(token) &&
    isMissing(token) &&
    isObject(instance) &&
    !found.has(classOf(instance) ?? token);
  const aliased = providers.filter(standsApart).map(({ token }) => aliasWarning(token));
  const others = own.flatMap((wrapper) => {
    if (isOpaque(wrapper)) return [opaqueWarning(wrapper)];
    if (!isThere(wrapper))
      return classesOfProvider(wrapper)
        .filter(isMissing)
        .map((type) => absentWarning(type, wrapper.instance));
    const held = Array.isArray(wrapper.instance)
      ? wrapper.instance.flatMap((one: unknown) => (isObject(one) ? (classOf(one) ?? []) : []))
      : [];
    return [...new Set(held)].filter(isMissing).map((type) => heldWarning(type, wrapper));
  });
  return [...aliased, ...others];
}

/**
 * Finds the methods of a class that what stands in its place does not have: each call of them would
 * fail. A request that makes the instance shows them, too, and no sooner.
 */
export function standInFindings(
  at: string,
  type: Type,
  wrapper: InstanceWrapper<object>,
  methods: readonly string[],
): Finding[] {
  const { instance } = wrapper;
  if (!isSingleton(wrapper) || !isObject(instance) || instance instanceof type) return [];
  const missing = methods.filter((name) => typeof Reflect.get(instance, name) !== 'function');
  return missing.map((name) => ({
    at,
    problem: `What is provided in place of ${type.name} has no method "${name}", so each call would fail.`,
    remedy:
      'Give it the method, or leave the provider and override the tool by an interceptor or ToolLoopTestingModule.override().',
  }));
}

function aliasWarning(token: InstanceWrapper['token']): Finding {
  return {
    at: isClass(token) ? token.name : String(token),
    problem:
      'Another provider stands in its place by `useExisting`, so its tools are not in the catalog.',
    remedy: 'Replace it by `useClass` or `useValue`, which keep its tools, or remove the provider.',
  };
}

function opaqueWarning({ token }: InstanceWrapper): Finding {
  return {
    at: `Factory "${String(token)}"`,
    problem: 'Only a request shows what it makes, so tools of that would not be found.',
    remedy:
      'If it makes tools, provide it as their class: { provide: CrmTools, scope, useFactory }.',
  };
}

function absentWarning(type: Type, there: unknown): Finding {
  return {
    at: type.name,
    problem: `There is ${inWords(there)} in its place, so its tools are not in the catalog.`,
    remedy: 'Provide an instance, or remove the provider.',
  };
}

function heldWarning(type: Type, { token }: InstanceWrapper): Finding {
  return {
    at: `Provider "${String(token)}"`,
    problem: `It is a list that holds ${type.name}, and the tools of what a list holds are not found.`,
    remedy: 'Provide each as its class.',
  };
}

/** Tells a factory that runs in a request only, and whose token does not name what it makes. */
function isOpaque(wrapper: InstanceWrapper): boolean {
  return (
    wrapper.isFactory &&
    !isSingleton(wrapper) &&
    !isClass(wrapper.token) &&
    wrapper.token !== REQUEST &&
    wrapper.token !== INQUIRER
  );
}
