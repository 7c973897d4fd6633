import { ToolField } from '@toolloop/core';
import { Type } from 'class-transformer';
import { IsEnum, IsInt, IsOptional, Matches, Max, Min, ValidateNested } from 'class-validator';
import { OrderStatus } from './order-status.js';

const DAY = /^\d{4}-\d{2}-\d{2}$/;

export class Period {
  @ToolField({ description: 'First day, e.g. 2026-11-01.' })
  @IsOptional()
  @Matches(DAY)
  from?: string;

  @ToolField({ description: 'Last day, itself included.' })
  @IsOptional()
  @Matches(DAY)
  to?: string;
}

export class ListOrders {
  @IsOptional() @IsEnum(OrderStatus) status?: OrderStatus;
  @IsOptional() @ValidateNested() @Type(() => Period) placed?: Period;
  @IsOptional() @IsInt() @Min(1) @Max(1000) page: number = 1;
  @IsOptional() @IsInt() @Min(1) @Max(10) pageSize: number = 5;
}
