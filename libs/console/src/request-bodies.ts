import { ValidationPipe } from '@nestjs/common';
import { isGiven } from '@toolloop/core/internal';
import { ValidateIf } from 'class-validator';

/** Refuses a body with a property that its DTO does not name. */
export const STRICT = new ValidationPipe({
  transform: true,
  whitelist: true,
  forbidNonWhitelisted: true,
});

/**
 * Marks a field that a body may leave out. It differs from `@IsOptional()` in null, which is
 * refused like every other value of a wrong type, with the message of the field's own rules.
 *
 * @example
 * class WayIn {
 *   @MayBeAbsent() @IsString() name?: string;
 * }
 */
export function MayBeAbsent(): PropertyDecorator {
  return ValidateIf(isGiven);
}
