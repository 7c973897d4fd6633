import { ToolField } from '@toolloop/core';
import { IsInt, IsOptional, IsString, Matches, Max, MaxLength, Min } from 'class-validator';

export class SearchCustomers {
  @ToolField({ description: 'One or more words of the name.' })
  @IsString()
  @Matches(/\S/)
  @MaxLength(80)
  name!: string;

  @IsOptional() @IsInt() @Min(1) @Max(25) limit: number = 5;
}
