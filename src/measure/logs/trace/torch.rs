//! PyTorch's names of collectives and types, and what its sizes count.
//!
//! The names are those of `record_param_comms` and of the flight recorder (pytorch/pytorch,
//! torch/csrc/distributed/c10d). Sizes are elements of a rank's input and output; nccl-tests' M is the
//! larger of the two, unless only one rank has all elements.

use crate::base::collective::Collective;
use crate::base::quantity::Bytes;
use crate::machine::sample::DataType;

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    Collective(Collective),
    /// An exchange whose blocks may be of different sizes.
    Uneven,
    /// A call that moves no data, such as waiting, and is ignored silently.
    Nothing,
    /// A barrier, implemented as an all-reduce of one element.
    Barrier,
    /// A wrapper around several.
    Coalesced,
    Unknown,
}

/// What `name` is: `allreduce`, `_allgather_base`, `nccl:all_reduce`, `gloo:broadcast`, `nccl:send 0->1`.
pub(super) fn called(name: &str) -> Called {
    use Collective as C;
    let name = name.split_once(':').map_or(name, |(_, rest)| rest);
    let name = name.split([' ', '(']).next().unwrap_or(name);
    let plain: String = name.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    if plain.contains("barrier") {
        return Called::Barrier;
    }
    let mut plain = plain.as_str();
    for end in ["coalesced", "tensor", "base", "into", "single", "sparse", "oop"] {
        plain = plain.strip_suffix(end).unwrap_or(plain);
    }
    Called::Collective(match plain {
        "allreduce" => C::AllReduce,
        "allgather" | "allgatherinto" => C::AllGather,
        "reducescatter" => C::ReduceScatter,
        "alltoall" => C::AllToAll,
        "alltoallv" => return Called::Uneven,
        "broadcast" => C::Broadcast,
        "reduce" => C::Reduce,
        "gather" => C::Gather,
        "scatter" => C::Scatter,
        "send" | "recv" => C::SendRecv,
        "wait" | "init" => return Called::Nothing,
        "" if name.contains("coalesced") => return Called::Coalesced,
        _ => return Called::Unknown,
    })
}

/// The type with this name in PyTorch.
pub(super) fn dtype(name: &str) -> Option<DataType> {
    Some(match name.strip_prefix("c10::").unwrap_or(name) {
        "Long" | "long" => DataType::I64,
        "Short" | "short" => DataType::I16,
        "Char" => DataType::I8,
        "Byte" | "Bool" | "unsigned char" => DataType::U8,
        "long int" => DataType::I64,
        // On MI300, without a negative zero (fnuz).
        "Float8_e4m3fn" | "Float8_e4m3fnuz" => DataType::F8e4m3,
        "Float8_e5m2" | "Float8_e5m2fnuz" => DataType::F8e5m2,
        other => return DataType::named(other),
    })
}

/// M of a rank's input and output elements.
pub(super) fn size(
    collective: Collective,
    input: u64,
    output: u64,
    dtype: DataType,
    ranks: u32,
) -> Option<Bytes> {
    let elements = match collective {
        // The root has all; each of the others has a part, or nothing on its other side.
        Collective::Gather => input.checked_mul(u64::from(ranks))?,
        Collective::Scatter => output.checked_mul(u64::from(ranks))?,
        _ => input.max(output),
    };
    elements.checked_mul(dtype.bytes().0).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_are_one_collective() {
        use Collective as C;
        for (name, collective) in [
            ("allreduce", C::AllReduce),
            ("nccl:all_reduce", C::AllReduce),
            ("allreduce_coalesced", C::AllReduce),
            ("_allgather_base", C::AllGather),
            ("allgather_into_tensor_coalesced", C::AllGather),
            ("nccl:_all_gather_base", C::AllGather),
            ("reduce_scatter_tensor_coalesced", C::ReduceScatter),
            ("_reduce_scatter_base", C::ReduceScatter),
            ("all_to_all_single", C::AllToAll),
            ("gloo:broadcast", C::Broadcast),
            ("nccl:_broadcast_oop", C::Broadcast),
            ("_reduce_oop", C::Reduce),
            ("nccl:send 0->1", C::SendRecv),
        ] {
            assert_eq!(called(name), Called::Collective(collective), "{name}");
        }
        assert_eq!(called("nccl:all_reduce_barrier"), Called::Barrier);
        assert_eq!((called("all_to_allv"), called("wait")), (Called::Uneven, Called::Nothing));
        assert_eq!((called("nccl:coalesced"), called("x")), (Called::Coalesced, Called::Unknown));
        for (name, known) in [
            ("BFloat16", DataType::Bf16),
            ("c10::BFloat16", DataType::Bf16),
            ("c10::Half", DataType::F16),
            ("Char", DataType::I8),
            ("Float8_e4m3fn", DataType::F8e4m3),
            ("Float8_e4m3fnuz", DataType::F8e4m3),
            ("c10::Float8_e5m2fnuz", DataType::F8e5m2),
        ] {
            assert_eq!(dtype(name), Some(known), "{name}");
        }
        assert_eq!(size(C::AllGather, 4, 8, DataType::F32, 2), Some(Bytes(32)));
        assert_eq!(size(C::AllReduce, u64::MAX, 1, DataType::F32, 2), None);
    }
}
