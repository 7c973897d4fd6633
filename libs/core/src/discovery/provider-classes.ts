import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { classOf } from '../schema/exposed-properties.accessor.js';

/** Of a factory or a value the instance tells the class; where there is none yet, the token does. */
export function classOfProvider(wrapper: InstanceWrapper<object>): Type | undefined {
  const isFactoryOrValue = wrapper.isFactory || wrapper.isNotMetatype;
  if (!isFactoryOrValue) return isClass(wrapper.metatype) ? wrapper.metatype : undefined;
  if (!isSingleton(wrapper)) return isClass(wrapper.token) ? wrapper.token : undefined;
  const instance: unknown = wrapper.instance;
  const type = typeof instance === 'object' && instance !== null ? classOf(instance) : undefined;
  return type === Object ? undefined : type;
}

export function isSingleton(wrapper: InstanceWrapper): boolean {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}

export function isClass(value: unknown): value is Type {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null && value !== Object;
}

export function isClassOrBelow(type: unknown, ancestor: Type): boolean {
  return type === ancestor || (typeof type === 'function' && type.prototype instanceof ancestor);
}
