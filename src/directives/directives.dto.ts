import { DIRECTIVE_STATUSES, type DirectiveStatus } from '@toolloop/core';
import { IsBoolean, IsIn, IsOptional, IsString, MaxLength, ValidateIf } from 'class-validator';

/** Which directives to show. */
export class DirectiveListing {
  @IsOptional() @IsIn(DIRECTIVE_STATUSES, { message: `status must be one of ${DIRECTIVE_STATUSES.join(', ')}` }) status?: DirectiveStatus;
  @IsOptional() @IsString() @MaxLength(256) subject?: string;
  /** The id of the last one of the page before. */
  @IsOptional() @IsString() @MaxLength(64) after?: string;
}

/** Why something is not wanted any more. */
export class Cancellation {
  @IsOptional() @IsString({ message: 'reason must be a text' }) @MaxLength(1000) reason?: string;
}

/** What a person found who looked. Null is no answer, so it is not the same as none. */
export class Redrive {
  @ValidateIf((_body, said) => said !== undefined) @IsBoolean({ message: 'tookPlace must be true or false' }) tookPlace?: boolean;
}
