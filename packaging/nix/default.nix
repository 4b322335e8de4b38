# nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }:
let
  manifest = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).package;
in
pkgs.rustPlatform.buildRustPackage {
  pname = manifest.name;
  inherit (manifest) version;
  src = pkgs.lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  nativeBuildInputs = [ pkgs.installShellFiles ];
  # The suite wants clocks, namespaces and an hour: it is run where changes land.
  doCheck = false;
  postInstall = ''
    mkdir pages
    $out/bin/collcost man --out pages
    installManPage pages/*.1
    for shell in bash zsh fish; do
      $out/bin/collcost completions $shell > collcost.$shell
    done
    installShellCompletion collcost.{bash,zsh,fish}
  '';
  meta = {
    inherit (manifest) description;
    homepage = manifest.repository;
    license = with pkgs.lib.licenses; [ mit asl20 ];
    mainProgram = "collcost";
  };
}
