import type { Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { isObject, isRecord } from '@toolloop/protocol';
import { classOf } from '../../schema/exposed-properties.js';
import { isSingleton } from './provider-instances.js';

/**
 * Returns the class of a provider. For a factory or a value the instance tells it; if there is none
 * yet, the token does.
 */
export function classOfProvider(wrapper: InstanceWrapper<object>): Type | undefined {
  const isFactoryOrValue = wrapper.isFactory || wrapper.isNotMetatype;
  if (!isFactoryOrValue) return isClass(wrapper.metatype) ? wrapper.metatype : undefined;
  if (!isSingleton(wrapper)) return isClass(wrapper.token) ? wrapper.token : undefined;
  const instance: unknown = wrapper.instance;
  const type = typeof instance === 'object' && instance !== null ? classOf(instance) : undefined;
  return type === Object ? undefined : type;
}

/**
 * Returns the classes that a provider may stand for, most likely first: a test may put a plain
 * object or an undecorated class in the place of its own.
 */
export function classesOfProvider(wrapper: InstanceWrapper<object>): Type[] {
  const { token } = wrapper;
  return [
    classOfProvider(wrapper),
    isClass(token) ? token : undefined,
    declaredClassOf(wrapper),
  ].filter((type) => type !== undefined);
}

/**
 * Reads the class that the decorator of a module declares under the token of a provider. Nothing
 * tells what a factory made that is replaced.
 */
function declaredClassOf({ token, host }: InstanceWrapper): Type | undefined {
  const declared: unknown = host && Reflect.getMetadata(MODULE_METADATA.PROVIDERS, host.metatype);
  const providers: readonly unknown[] = Array.isArray(declared) ? declared : [];
  const { useClass, useValue } =
    providers.filter(isRecord).findLast(({ provide }) => provide === token) ?? {};
  if (useClass !== undefined) return isClass(useClass) ? useClass : undefined;
  return isObject(useValue) ? classOf(useValue) : undefined;
}

export function isClass(value: unknown): value is Type {
  return (
    typeof value === 'function' &&
    typeof value.prototype === 'object' &&
    value.prototype !== null &&
    value !== Object
  );
}

export function isClassOrBelow(type: unknown, ancestor: Type): boolean {
  return type === ancestor || (typeof type === 'function' && type.prototype instanceof ancestor);
}
